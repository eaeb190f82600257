"""chakrakit: Chakra execution traces, end to end.

Names are imported when first used, so that `import chakrakit` costs a few milliseconds.
"""

from __future__ import annotations

__version__ = "0.1.0"
