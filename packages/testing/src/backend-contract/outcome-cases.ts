import assert from 'node:assert/strict'

import { isOsmosisError, OsmosisError } from '@osmosis/core'
import type { RolloutFailure } from '@osmosis/runtime'

import { startPolicyServer } from '../policy-server.ts'
import { executeScripted, type BackendCase, type ScriptedRequest } from './backend-case.ts'
import type { BackendRule } from './backend-rules.ts'

/** How rollouts end. */
export const outcomeCases = {
  'tells-phases': async (open) => {
    const reported = await executeScripted(await open('unlimited'), { does: 'two-samples' })
    assert.deepEqual(reported.events, ['running', 'grading', 'workflow success', 'grading success'])
    assert.deepEqual([...(reported.samples?.keys() ?? [])], ['a', 'b'])
    assert.deepEqual(rewardsOf(reported.grading?.samples), { a: 1, b: 1 })
    assert.equal(reported.completion.failure, null)
    assert.equal(reported.grading?.failure, null)
  },

  'skips-phases': async (open) => {
    const backend = await open('unlimited')
    const ungraded = await executeScripted(backend, { grade: false })
    assert.deepEqual(ungraded.events, ['running', 'workflow success'])
    assert.deepEqual([...(ungraded.samples?.keys() ?? [])], ['main'])
    const failed = await executeScripted(backend, { does: 'throws' })
    assert.deepEqual(failed.events, ['running', 'workflow failure', 'grading failure'])
    const late = await executeScripted(backend, { agentTimeoutSeconds: 0 })
    assert.deepEqual(late.events, ['workflow failure', 'grading failure'])
  },

  'waits-before-asking': async (open) => {
    const backend = await open('unlimited')
    await using server = await startPolicyServer(() => 'yes')
    const asks = { does: 'asks-twice', chatCompletionsUrl: server.url } as const
    const callers = (): unknown[] => server.requests.map(({ headers }) => headers['x-sample-id'])
    const waiting = await executeScripted(backend, asks, {
      beforeFirstModelCall: async () => {
        // Each of these would be overtaken by a call that does not wait.
        for (let n = 0; n < 3; n += 1) await askAs('observer', server.url)
      },
    })
    assert.equal(waiting.completion.failure, null)
    assert.deepEqual(callers(), ['observer', 'observer', 'observer', 'main', 'main'])
    const refused = await executeScripted(backend, asks, {
      beforeFirstModelCall: async () => {
        throw new OsmosisError('invalid_request', 'no note can be taken')
      },
    })
    assertFailure(refused.completion.failure, 'no note can be taken', 'validation_error')
    assert.equal(callers().length, 5)
    await executeScripted(
      backend,
      { does: 'one-sample' },
      {
        beforeFirstModelCall: async () => assert.fail('nothing was asked'),
      },
    )
  },

  'fails-workflows': async (open) => {
    const backend = await open('unlimited')
    const failures: [ScriptedRequest['does'], string | RegExp, string][] = [
      ['throws', 'thrown by run(): boom', 'agent_error'],
      ['throws-nothing-to-say', 'thrown by run(): RangeError', 'validation_error'],
      ['throws-text', 'thrown by run(): just a text', 'agent_error'],
      ['throws-own-timeout', 'thrown by run(): the tool took too long', 'timeout'],
      ['throws-status', 'the judge failed', 'http_error'],
      ['throws-uncloneable', 'thrown by run(): holds a socket', 'agent_error'],
      ['names-twice', /"main" is already registered/, 'validation_error'],
      ['source-throws', 'thrown by a sample source: no messages', 'agent_error'],
    ]
    for (const [does, message, category] of failures) {
      const { completion, grading } = await executeScripted(backend, { does })
      assertFailure(completion.failure, message, category)
      assertFailure(grading?.failure, message, category)
      assert.deepEqual(completion.warnings, [])
      assert.equal(grading?.samples.size, 0)
    }
    const thrown = (await executeScripted(backend, { does: 'throws-status' })).completion.failure
    assert.ok(thrown?.cause instanceof Error && thrown.cause.message === 'the judge failed')
    const { cause } = thrown.cause
    assert.match(thrown.cause.stack ?? '', /contract-scripts/)
    assert.ok(isOsmosisError(cause) && cause.code === 'policy_http_error' && cause.status === 503)
    const text = (await executeScripted(backend, { does: 'throws-text' })).completion.failure
    assert.equal(text?.cause, 'just a text')
  },

  'fails-gradings': async (open) => {
    const backend = await open('unlimited')
    const failures: [ScriptedRequest['grades'], string | RegExp, string][] = [
      ['throws', 'thrown by grade(): gboom', 'agent_error'],
      ['nothing', /Sample "main" has no reward/, 'validation_error'],
      ['not-a-number', /must be a finite number, got NaN/, 'validation_error'],
      ['unknown', /no sample "nope".*main/, 'validation_error'],
    ]
    for (const [grades, message, category] of failures) {
      const { completion, grading } = await executeScripted(backend, { grades })
      assert.equal(completion.status, 'success')
      assertFailure(grading?.failure, message, category)
      assert.deepEqual(rewardsOf(grading?.samples), { main: null })
    }
  },

  'names-what-is-missing': async (open) => {
    const missing = async (
      entrypoint: Parameters<typeof open>[0],
      request: ScriptedRequest,
      samples = 0,
    ): Promise<string | undefined> => {
      const { completion, grading } = await executeScripted(await open(entrypoint), request)
      assert.equal(completion.status, 'success')
      assert.equal(grading?.failure?.category, 'validation_error')
      assert.equal(grading.samples.size, samples)
      return grading.failure.message
    }
    assert.match(
      (await missing('unlimited', { does: 'no-sample' })) ?? '',
      /registered no sample source/,
    )
    assert.match((await missing('unlimited', { does: 'forgets-to-ask' })) ?? '', /"agent".*`await`/)
    assert.match(
      (await missing('unlimited', { label: null })) ?? '',
      /neither a label nor metadata/,
    )
    // Somebody else may score them.
    assert.match((await missing('ungraded', {}, 1)) ?? '', /There is no grader/)
  },

  warns: async (open) => {
    const backend = await open('unlimited')
    const { completion } = await executeScripted(backend)
    assert.equal(completion.warnings.length, 1)
    assert.match(completion.warnings[0] ?? '', /made no model call/)
    const empty = await executeScripted(backend, { does: 'no-sample' })
    assert.match(empty.completion.warnings[0] ?? '', /no sample source/)
  },
} satisfies Partial<Record<BackendRule, BackendCase>>

export function assertFailure(
  failure: RolloutFailure | null | undefined,
  message: string | RegExp,
  category: string,
): void {
  const said = failure?.message ?? ''
  if (typeof message === 'string') assert.equal(said, message)
  else assert.match(said, message)
  assert.equal(failure?.category, category)
}

function rewardsOf(
  samples: ReadonlyMap<string, { readonly reward: number | null }> | undefined,
): Record<string, number | null> {
  return Object.fromEntries([...(samples ?? [])].map(([id, { reward }]) => [id, reward]))
}

async function askAs(sampleId: string, url: string): Promise<void> {
  const answer = await fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-sample-id': sampleId },
    body: JSON.stringify({ messages: [] }),
  })
  await answer.text()
}
