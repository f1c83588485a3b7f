# The image of every Leasehold process: worker, reaper, command line.
#
# Leasehold takes SIGTERM as the order to drain. Workers want an init as PID 1 (`docker run --init`; the compose file says
# `init: true`): commands may leave orphans behind, which only PID 1 can reap.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
# One package, so that no test feature of a sibling is switched on.
RUN cargo build --locked --release --package leasehold

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --create-home --shell /usr/sbin/nologin leasehold
COPY --from=build /src/target/release/leasehold /usr/local/bin/leasehold
USER leasehold
WORKDIR /home/leasehold
STOPSIGNAL SIGTERM
ENTRYPOINT ["leasehold"]
CMD ["--help"]
