# The project with all that its tests need, to run the two commands of README.md:
#
#     docker build -t posattn .
#     docker run --rm posattn                                # with a GPU: --gpus all
#     docker run --rm posattn bash scripts/test.sh --fast
FROM python:3.12-slim-bookworm

# What builds fairseq-fixed
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

# Options of pip for PyTorch, such as those that choose its smaller CPU build. Without any, Linux gets
# the CUDA build, which runs on CPUs too. scripts/environment.sh shares this torch.
ARG TORCH_OPTIONS=
WORKDIR /posattn
COPY requirements.txt .
RUN pip install --no-cache-dir $TORCH_OPTIONS "$(grep '^torch==' requirements.txt)"

COPY . .
ENV POSATTN_ENV=/opt/posattn PIP_NO_CACHE_DIR=1
RUN bash scripts/environment.sh
ENV PATH=/opt/posattn/bin:$PATH
CMD ["bash", "examples/quickstart/run.sh"]
