import { isPathSegment } from '@osmosis/core'
import { leasedErrorCategorySchema, leasedResultSchema, leaseHeader } from '@osmosis/runtime/wire'

import { HttpRefusal } from '../http/http-refusal.ts'
import { jsonTextAnswer } from '../http/route-answer.ts'
import type { ServerRoute } from '../http/server-route.ts'
import type { FetchedResults } from '../rollout/rollout-ports.ts'

/** As it is written; what is read is more lenient. */
const answerSchema = leasedResultSchema.extend({
  err_category: leasedErrorCategorySchema.nullable(),
})

/** The route at which the holder of a lease asks for the result, and so renews the lease. */
export function resultRoute(results: FetchedResults): ServerRoute {
  return {
    method: 'GET',
    path: '/rollout/{rollout_id}/result',
    summary: 'The result of a leased rollout, or its status when that has changed or time is up',
    answers: {
      200: { description: 'The status, and the result once there is one', schema: answerSchema },
      403: { description: `The ${leaseHeader} header is not the lease of this rollout` },
      404: { description: 'No such leased rollout, or its result is no longer kept' },
      422: { description: `The id is no path segment, or the ${leaseHeader} header is missing` },
    },
    async handle(c) {
      const rolloutId = c.req.param('rollout_id') ?? ''
      if (!isPathSegment(rolloutId)) {
        const msg = 'must be a single path segment of printable ASCII, at most 256 characters'
        throw new HttpRefusal(422, [{ type: 'value_error', loc: ['path', 'rollout_id'], msg }])
      }
      const token = c.req.header(leaseHeader)
      if (token === undefined) {
        const missing = { type: 'missing', loc: ['header', leaseHeader], msg: 'Field required' }
        throw new HttpRefusal(422, [missing])
      }
      const rollout = await results.find(rolloutId)
      if (rollout === undefined) throw new HttpRefusal(404, 'unknown rollout_id')
      if (!rollout.carries(token)) throw new HttpRefusal(403, 'invalid polling lease')
      const body = await rollout.read(results.waitSeconds * 1000, c.req.raw.signal)
      return jsonTextAnswer(body)
    },
  }
}
