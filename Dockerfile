# The image of every Leasehold process: worker, reaper, command line.
#
# PID 1 is leasehold itself: it takes SIGTERM as the order to drain, so no init stands between.

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
