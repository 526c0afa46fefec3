import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node'

// For `--import`: registers what operators register.
new NodeTracerProvider().register()
