# The project with all that its tests need, to run the two commands of README.md:
#
#     docker build -t posattn .                              # CPU
#     docker build -t posattn --build-arg TORCH=cu130 .      # CUDA 13; run it with --gpus all
#     docker run --rm posattn
#     docker run --rm posattn bash scripts/test.sh --fast
FROM python:3.12-slim-bookworm

# What builds fairseq-fixed
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

# A folder of https://download.pytorch.org/whl. scripts/environment.sh shares the torch of this Python.
ARG TORCH=cpu
WORKDIR /posattn
COPY requirements.txt .
RUN pip install --no-cache-dir --index-url "https://download.pytorch.org/whl/$TORCH" \
    "$(grep '^torch==' requirements.txt)"

COPY . .
ENV POSATTN_ENV=/opt/posattn PIP_NO_CACHE_DIR=1
RUN bash scripts/environment.sh
ENV PATH=/opt/posattn/bin:$PATH
CMD ["bash", "examples/quickstart/run.sh"]
