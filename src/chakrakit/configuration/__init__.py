"""Configuration as people write it: YAML, JSON and XML of bounded size and depth, with line numbers."""

from chakrakit.configuration.choices import with_choices
from chakrakit.configuration.document import (
    Document,
    Place,
    document_of,
    parse_document,
    place_in,
    plain,
    read_document,
)
from chakrakit.configuration.json_text import (
    LARGEST,
    LARGEST_WRITTEN,
    Count,
    Natural,
    NotNegative,
    Positive,
    as_text,
    check_depth,
    decode_json,
    read_bounded,
    read_json,
    read_text_file,
)
from chakrakit.configuration.programs import is_program, part_of_program, place_in_program, run_file
from chakrakit.configuration.xml_text import MOST_XML_BYTES, read_xml
from chakrakit.configuration.yaml_text import decode_yaml

__all__ = [
    "LARGEST",
    "LARGEST_WRITTEN",
    "MOST_XML_BYTES",
    "Count",
    "Document",
    "Natural",
    "NotNegative",
    "Place",
    "Positive",
    "as_text",
    "check_depth",
    "decode_json",
    "decode_yaml",
    "document_of",
    "is_program",
    "parse_document",
    "part_of_program",
    "place_in",
    "place_in_program",
    "plain",
    "read_bounded",
    "read_document",
    "read_json",
    "read_text_file",
    "read_xml",
    "run_file",
    "with_choices",
]
