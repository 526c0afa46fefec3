import { type ModelServer, startModelServer } from '../kit/model-server/model-server.ts'
import type { RealExchange } from './real-exchange.ts'
import { answerWhileLoading } from './real-exchanges.ts'

/** A server whose model is loaded. */
export interface LoadedServer {
  readonly server: ModelServer
  /** What it answered before that. */
  readonly loading: RealExchange
}

/** Starts one, which the caller ends. */
export async function startLoaded(): Promise<LoadedServer> {
  const server = await startModelServer({ hold: true })
  const loading = await answerWhileLoading(server)
  server.release()
  await server.ready()
  return { server, loading }
}

let shared: Promise<LoadedServer> | undefined

/** The server that the test files of a worker share. It ends with the worker. */
export async function sharedServer(): Promise<LoadedServer> {
  shared ??= startLoaded()
  return shared
}

/** The same, for tests that are not about how it began. */
export async function sharedModelServer(): Promise<ModelServer> {
  return (await sharedServer()).server
}
