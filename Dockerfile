# The digest is that of the image for all platforms, of 2026-10-06. For a later version of Node, replace version and
# digest, here and below, with what `docker buildx imagetools inspect node:VERSION-bookworm-slim` prints.
FROM node:24.21.0-bookworm-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20 AS packages
WORKDIR /app
COPY package.json package-lock.json ./
# The optional packages are the embedded PostgreSQL, which no container needs.
RUN npm ci --omit=optional --ignore-scripts

FROM packages AS build
COPY nest-cli.json tsconfig.json tsconfig.build.json ./
COPY migrations migrations
COPY src src
RUN npm run build

# A stage of its own, so that a change of the sources does not repeat it.
FROM packages AS production-packages
RUN npm prune --omit=dev --omit=optional --ignore-scripts

FROM node:24.21.0-bookworm-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20
# The kernel drops signals that PID 1 does not handle, and Node handles none in its first second. tini does, and reaps
# orphans.
RUN apt-get update && apt-get install -y --no-install-recommends 'tini=0.19.0-1*' && rm -rf /var/lib/apt/lists/*
# Where Debian has the public certificate authorities, which this image lacks: those that Node has.
RUN mkdir -p /etc/ssl/certs && node -p 'tls.rootCertificates.join("\n")' > /etc/ssl/certs/ca-certificates.crt
ENV NODE_ENV=production HOST=* PORT=3000
WORKDIR /app
# The files that package.json lists.
COPY package.json ./
COPY docs/guides docs/guides
COPY docs/interface.md docs/interface.md
COPY docs/openapi.yaml docs/openapi.yaml
COPY public public
COPY scripts scripts
COPY views views
COPY --from=production-packages /app/node_modules node_modules
COPY --from=build /app/dist dist
RUN chmod +x dist/src/main.js && ln -s /app/dist/src/main.js /usr/local/bin/animal-store
ARG VERSION
ARG COMMIT
LABEL org.opencontainers.image.title="Animal Store Service" \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$COMMIT
ENV COMMIT=$COMMIT
USER node
EXPOSE 3000
# Liveness, because a new container would not bring the database back. In bash, because the image has no curl, and Node
# would take more CPU time at each check.
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/${PORT:-3000} && printf 'GET /health/live HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r status <&3 && [[ $status == 'HTTP/1.1 200 '* ]]"]
ENTRYPOINT ["tini", "--", "animal-store"]
CMD ["serve"]
