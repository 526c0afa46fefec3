import type { HttpBindings } from '@hono/node-server'
import {
  completionCallbackSchema,
  graderCallbackSchema,
  type CompletionCallbackBody,
  type GraderCallbackBody,
} from '@osmosis/core/wire'
import { Hono, type Context } from 'hono'
import type { z } from 'zod'

import { carriesBearer } from './bearer.ts'
import type { RolloutSessions } from './rollout-sessions.ts'

/**
 * The callback listener. Checks, in this order: bearer (401), JSON and schema (422), the body's id
 * against the path's (422), whether the id is known (404). Acknowledges with `{"ok":true}` once
 * what the callback brought is committed; a failed commit is a 500, which servers send again.
 */
export function callbackRoutes(
  sessions: RolloutSessions,
  token: string,
): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>()
  app.post('/v1/rollouts/:rolloutId/completion', (c) =>
    answerCallback<CompletionCallbackBody>(c, token, completionCallbackSchema, (id, body) =>
      sessions.receiveCompletion(id, body),
    ),
  )
  app.post('/v1/rollouts/:rolloutId/grader', (c) =>
    answerCallback<GraderCallbackBody>(c, token, graderCallbackSchema, (id, body) =>
      sessions.receiveGrader(id, body),
    ),
  )
  return app
}

async function answerCallback<Body extends { rollout_id?: string | null | undefined }>(
  c: Context,
  token: string,
  schema: z.ZodType<Body>,
  receive: (rolloutId: string, body: Body) => Promise<boolean>,
): Promise<Response> {
  if (!carriesBearer(c.req.header('authorization'), token)) {
    return c.json({ detail: 'Unauthorized' }, 401)
  }
  const rolloutId = c.req.param('rolloutId') ?? ''
  const json = parseJson(await c.req.text())
  if (json === undefined) {
    return c.json({ detail: [{ type: 'json_invalid', loc: ['body'], msg: 'not JSON' }] }, 422)
  }
  const parsed = schema.safeParse(json.value)
  if (!parsed.success) {
    const detail = parsed.error.issues.map(({ code, path, message }) => ({
      type: code,
      loc: ['body', ...path.map(String)],
      msg: message,
    }))
    return c.json({ detail }, 422)
  }
  const claimedId = parsed.data.rollout_id ?? rolloutId
  if (claimedId !== rolloutId) return c.json({ detail: 'rollout_id mismatch' }, 422)
  const known = await receive(rolloutId, parsed.data)
  return known ? c.json({ ok: true }) : c.json({ detail: 'unknown rollout_id' }, 404)
}

function parseJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}
