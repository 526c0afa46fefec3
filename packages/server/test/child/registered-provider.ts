import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node'

// For `--import`: registers a provider as operators do.
new NodeTracerProvider().register()
