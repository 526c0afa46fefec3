import { onTestFinished } from 'vitest'

import { onlyIf, refuseWhereAllIsInstalled, type TestsWithNeeds } from '../with-programs.ts'
import { type ModelServer, pythonOfModelServer, startModelServer } from './model-server.ts'

/**
 * `describe` and `it` of vitest for tests with a {@link ModelServer}.
 *
 * @throws Error when it is missing and `OSMOSIS_TESTS_REQUIRE_PROGRAMS` is set, as in `.ci/run`
 */
export function withModelServer(): TestsWithNeeds {
  const isThere = pythonOfModelServer() !== undefined
  if (!isThere) {
    refuseWhereAllIsInstalled("llama.cpp's server", '.ci/python-environment model-server')
  }
  return onlyIf(isThere, 'bash .ci/python-environment model-server')
}

/**
 * A server of a test's own, which ends with the test.
 *
 * @param options.hold - whether it loads its model only when it is released; default true
 * @param options.port - default: a free one
 */
export async function ownModelServer({
  hold = true,
  port,
}: { readonly hold?: boolean; readonly port?: number } = {}): Promise<ModelServer> {
  const server = await startModelServer({ hold, ...(port === undefined ? {} : { port }) })
  onTestFinished(() => server.kill())
  return server
}
