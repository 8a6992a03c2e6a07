/** Loaded before the service, with --import: sends spans of its requests and of their statements. OTEL_… sets where to. */
import { HttpInstrumentation } from '@opentelemetry/instrumentation-http';
import { PgInstrumentation } from '@opentelemetry/instrumentation-pg';
import { NodeSDK } from '@opentelemetry/sdk-node';

const sdk = new NodeSDK({
  // Only traces: the log and the metrics are the service's own.
  metricReaders: [],
  logRecordProcessors: [],
  instrumentations: [
    new HttpInstrumentation({
      ignoreIncomingRequestHook: ({ url }) => url.startsWith('/health/') || url === '/metrics',
      // Named after the operation's pattern, such as GET /v1/pets/:petId.
      applyCustomAttributesOnSpan: (span, request) => {
        // A client may put its key there by mistake. The log does not have queries, either.
        span.setAttribute('url.query', '');
        if (request.route !== undefined) {
          span.updateName(`${request.method} ${request.route.path}`);
          span.setAttribute('http.route', request.route.path);
        }
      },
    }),
    // Without the statements that no request waits for.
    new PgInstrumentation({ requireParentSpan: true, ignoreConnectSpans: true }),
  ],
});
sdk.start();
// The service ends by itself after SIGTERM, when the last response is sent.
process.once('beforeExit', () => sdk.shutdown().catch(console.error));
