# The server's image. Both stages are scripts that CI runs without Docker: scripts/install_deps, scripts/build_release
# and scripts/make_rootfs.
#
#   docker build -t slipstream .
#   docker run --rm -p 8000:8000 -v "$PWD/models:/models:ro" --read-only slipstream /models/model.gguf
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
