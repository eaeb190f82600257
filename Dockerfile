# chakrakit with everything but PyTorch:
#   docker build -t chakrakit . && docker run --rm -v "$PWD:/work" chakrakit analyze run
FROM python:3.12-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml CMakeLists.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir build==1.3.0 && python -m build --wheel

FROM python:3.12-slim-bookworm
COPY --from=build /source/dist/*.whl /tmp/
RUN pip install --no-cache-dir "$(echo /tmp/*.whl)[all]" && rm /tmp/*.whl && useradd --create-home chakra
USER chakra
WORKDIR /work
ENTRYPOINT ["chakra"]
CMD ["--help"]
