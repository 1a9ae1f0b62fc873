# The server's images: for CPUs, and for NVIDIA GPUs (--target cuda). Their stages are scripts that CI runs without Docker:
# scripts/install_deps, scripts/build_release and scripts/make_rootfs.
#
#   docker build -t slipstream .
#   docker run --rm -p 8000:8000 -v "$PWD/models:/models:ro" --read-only slipstream /models/model.gguf
#
#   docker build -t slipstream:cuda --target cuda .
#   docker run --rm --gpus all -p 8000:8000 -v "$PWD/models:/models:ro" slipstream:cuda /models/model.gguf
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04 AS build-cuda
WORKDIR /src
COPY scripts/install_deps scripts/
RUN scripts/install_deps
COPY . .
RUN scripts/build_release --cuda
RUN scripts/make_rootfs --cuda /usr/local/cuda/lib64/libcublasLt.so.13 /rootfs

# The base has the C library and what the container runtime needs to put the host's driver in.
FROM nvidia/cuda:13.0.1-base-ubuntu24.04 AS cuda
COPY --from=build-cuda /rootfs/usr/ /usr/
ENV LD_LIBRARY_PATH=/usr/lib/slipstream \
    HF_HOME=/models \
    SLIPSTREAM_HOST=0.0.0.0 \
    SLIPSTREAM_OPS_HOST=0.0.0.0 \
    SLIPSTREAM_LOG_FORMAT=json
USER 10001:10001
WORKDIR /models
VOLUME /models
EXPOSE 8000 8001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=600s --retries=3 \
    CMD ["slipstream", "healthcheck", "--url", "http://127.0.0.1:8001/health/ready"]
ENTRYPOINT ["slipstream", "serve"]

FROM debian:12 AS build
WORKDIR /src
COPY scripts/install_deps scripts/
RUN scripts/install_deps
COPY . .
RUN scripts/build_release
RUN scripts/make_rootfs /rootfs

FROM scratch
COPY --from=build /rootfs /
# Inside a container the network is the operator's business, so listen on all of it; the log says when no key is set.
ENV PATH=/usr/bin \
    HF_HOME=/models \
    SLIPSTREAM_HOST=0.0.0.0 \
    SLIPSTREAM_OPS_HOST=0.0.0.0 \
    SLIPSTREAM_LOG_FORMAT=json
USER 10001:10001
WORKDIR /models
VOLUME /models
EXPOSE 8000 8001
STOPSIGNAL SIGTERM
# The second listener answers whatever --port is, and however many streams are open.
HEALTHCHECK --interval=10s --timeout=3s --start-period=120s --retries=3 \
    CMD ["slipstream", "healthcheck", "--url", "http://127.0.0.1:8001/health/ready"]
ENTRYPOINT ["slipstream", "serve"]
