FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# The optional packages are the embedded PostgreSQL, which no container needs.
RUN npm ci --omit=optional --ignore-scripts
COPY nest-cli.json tsconfig.json tsconfig.build.json ./
COPY migrations migrations
COPY src src
RUN npm run build && npm prune --omit=dev --omit=optional --ignore-scripts

FROM node:24-bookworm-slim
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000
WORKDIR /app
COPY package.json ./
COPY scripts scripts
COPY public public
COPY docs/guides docs/guides
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
RUN chmod +x dist/src/main.js && ln -s /app/dist/src/main.js /usr/local/bin/animal-store
USER node
EXPOSE 3000
# Not readiness: a new container would not bring a database back that is away.
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 3000}/health/live`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["animal-store"]
CMD ["serve"]
