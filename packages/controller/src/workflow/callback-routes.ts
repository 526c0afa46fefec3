import type { HttpBindings } from '@hono/node-server'
import { completionCallbackSchema, graderCallbackSchema } from '@osmosis/runtime/wire'
import { Hono, type Context } from 'hono'

import { readCallback, Refusal } from '../http/request-body.ts'
import type { Routes } from '../http/rollout-host.ts'
import {
  gradedOutcome,
  toCompletionReport,
  ungradedOutcome,
  type WorkflowSessions,
} from './rollout-outcome.ts'

/**
 * The callback listener. Checks, in this order: bearer (401), body and schema (422), the body's id
 * against the path's (422), whether the id is known (404). Acknowledges with `{"ok":true}` once
 * what the callback brought is committed; a failed commit is a 500, which servers send again.
 */
export function callbackRoutes(sessions: WorkflowSessions, key: string): Routes {
  const app: Routes = new Hono<{ Bindings: HttpBindings }>()

  app.post('/v1/rollouts/:rolloutId/completion', async (c) => {
    const schema = completionCallbackSchema
    const body = await readCallback(c.req.raw, { key, schema, notJson: 422 })
    const rolloutId = idOf(c.req.param('rolloutId'), body)
    const callback = { kind: 'completion', body } as const
    const session = sessions.find(rolloutId)
    // What was cancelled is not graded any more.
    const isEnd = body.status === 'cancelled' || typeof session !== 'object'
    if (isEnd || !session.state.graded) {
      const known = await sessions.conclude(rolloutId, callback, (facts, state) => {
        const completion = (state.completion ??= toCompletionReport(body))
        return ungradedOutcome({ ...facts, completion, gradingMs: null }, completion)
      })
      return acknowledge(c, known)
    }
    const known = sessions.note(rolloutId, callback)
    session.state.completion ??= toCompletionReport(body)
    session.state.completedAt ??= performance.now()
    return acknowledge(c, known)
  })

  app.post('/v1/rollouts/:rolloutId/grader', async (c) => {
    const schema = graderCallbackSchema
    const body = await readCallback(c.req.raw, { key, schema, notJson: 422 })
    const rolloutId = idOf(c.req.param('rolloutId'), body)
    const known = await sessions.conclude(rolloutId, { kind: 'grader', body }, (facts, state) => {
      const { completion, completedAt } = state
      const gradingMs = completedAt === null ? null : performance.now() - completedAt
      return gradedOutcome({ ...facts, completion, gradingMs }, body)
    })
    return acknowledge(c, known)
  })
  return app
}

function idOf(rolloutId: string, body: { rollout_id?: string | null | undefined }): string {
  if ((body.rollout_id ?? rolloutId) === rolloutId) return rolloutId
  throw new Refusal(422, { detail: 'rollout_id mismatch' })
}

function acknowledge(c: Context, known: boolean): Response {
  return known ? c.json({ ok: true }) : c.json({ detail: 'unknown rollout_id' }, 404)
}
