import path from 'node:path'
import { pathToFileURL } from 'node:url'

import { discoverEntrypoint, LocalBackend, createRolloutServer, serve } from '@osmosis/server'

import { temporaryFolder } from '../kit/index.ts'
import { root } from './command.ts'

/** An example that this process serves. When it is disposed of, all documents are written. */
export interface ServedExample extends AsyncDisposable {
  readonly url: string
  /** Where the documents of its rollouts are. */
  readonly artifacts: string
}

/**
 * Serves a rollout of the examples.
 *
 * @param name - of its folder
 */
export async function serveExample(name: string): Promise<ServedExample> {
  const file = pathToFileURL(path.join(root, 'examples/rollouts', name, 'main.ts'))
  const entrypoint = discoverEntrypoint((await import(file.href)) as Record<string, unknown>)
  const artifacts = await temporaryFolder()
  const backend = new LocalBackend({ ...entrypoint, artifactRoot: artifacts })
  const server = createRolloutServer({ backend, logger: false })
  const listening = await serve(server, { port: 0, handleSignals: false })
  return {
    url: listening.url,
    artifacts,
    [Symbol.asyncDispose]: async () => listening.close(),
  }
}
