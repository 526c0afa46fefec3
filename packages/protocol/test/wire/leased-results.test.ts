import {
  drainRequestSchema,
  leasedResultSchema,
  leasedRolloutAcceptedSchema,
  leasedRolloutRequestSchema,
} from '@osmosis/protocol/wire'
import { describe, expect, it } from 'vitest'

const request = {
  rollout_id: 'r1',
  initial_messages: [],
  chat_completions_url: 'http://127.0.0.1:1/v1',
}

describe('the request of a rollout whose result is fetched', () => {
  it('wants rewards by default, and ignores unknown keys', () => {
    expect(leasedRolloutRequestSchema.parse({ ...request, new_key: 1 })).toStrictEqual({
      ...request,
      grade: true,
    })
    expect(leasedRolloutRequestSchema.parse({ ...request, grade: false }).grade).toBe(false)
  })

  it.each([
    ['rollout_id', undefined],
    ['rollout_id', '..'],
    ['rollout_id', 'a/b'],
    ['llm_api_key', ''],
    ['grade', null],
    ['agent_timeout_sec', Number.POSITIVE_INFINITY],
    ['chat_completions_url', 'ftp://x'],
  ])('refuses %s = %j', (key, value) => {
    expect(leasedRolloutRequestSchema.safeParse({ ...request, [key]: value }).success).toBe(false)
  })
})

describe('what a server answers about a lease', () => {
  const accepted = {
    rollout_id: 'r1',
    status: 'queued',
    polling_lease_token: 't',
    result_wait_timeout_sec: 30,
    polling_lease_timeout_sec: 120,
  }
  const result = {
    rollout_id: 'r1',
    status: 'failure',
    sample: null,
    err_message: 'polling lease expired',
    err_category: 'lease_expired',
  }

  it('has times above zero', () => {
    expect(leasedRolloutAcceptedSchema.parse(accepted)).toStrictEqual(accepted)
    for (const key of ['result_wait_timeout_sec', 'polling_lease_timeout_sec']) {
      const wrong = { ...accepted, [key]: 0 }
      expect(leasedRolloutAcceptedSchema.safeParse(wrong).success).toBe(false)
    }
  })

  it('accepts a result with an unknown category', () => {
    expect(leasedResultSchema.parse(result)).toStrictEqual(result)
    expect(leasedResultSchema.parse({ ...result, err_category: 'new' })).toStrictEqual({
      ...result,
      err_category: null,
    })
  })
})

it('a drain waits 30 s by default, and at most 300 s', () => {
  expect(drainRequestSchema.parse({})).toStrictEqual({ timeout_sec: 30 })
  expect(drainRequestSchema.safeParse({ timeout_sec: 301 }).success).toBe(false)
  expect(drainRequestSchema.safeParse({ timeout_sec: -1 }).success).toBe(false)
})
