import { carriesKey } from '@osmosis/core/http'
import type { z } from 'zod'

import { bodyFault, readJson, Refusal } from './request-body.ts'

/**
 * Reads a callback. Checks, in this order: key (401), size (413), UTF-8 (422), JSON (`notJson`),
 * schema (422).
 *
 * @throws Refusal
 */
export async function readCallback<Body>(
  request: Request,
  { key, schema, notJson }: { key: string; schema: z.ZodType<Body>; notJson: 400 | 422 },
): Promise<Body> {
  if (!carriesKey(request.headers.get('authorization'), key)) {
    throw new Refusal(401, { detail: 'Unauthorized' })
  }
  const parsed = schema.safeParse(await readJson(request, { notJson, refusal: bodyFault }))
  if (parsed.success) return parsed.data
  // Nobody corrects more mistakes than this at once, and a body has room for millions.
  const detail = parsed.error.issues.slice(0, 100).map(({ code, path, message }) => ({
    type: code,
    loc: ['body', ...path.map(String)],
    msg: message,
  }))
  throw new Refusal(422, { detail })
}
