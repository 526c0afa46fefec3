import { onlyIf, refuseWhereAllIsInstalled, type TestsWithNeeds } from '../kit/with-programs.ts'
import { pythonWithVllm } from './vllm-server.ts'

/**
 * `describe` and `it` of vitest for tests with vLLM.
 *
 * @throws Error when it is missing and `OSMOSIS_TESTS_REQUIRE_PROGRAMS` is set, as in `.ci/run`
 */
export function withVllm(): TestsWithNeeds {
  const isThere = pythonWithVllm() !== undefined
  if (!isThere) refuseWhereAllIsInstalled('vLLM', '.ci/python-environment vllm')
  return onlyIf(isThere, 'bash .ci/python-environment vllm')
}
