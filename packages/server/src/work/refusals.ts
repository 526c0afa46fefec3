import { HttpRefusal } from '../http/http-refusal.ts'

/** Seconds after which a caller that was turned away may ask again. */
const retryAfter = { 'retry-after': '5' }

/** Why a rollout is not accepted: callers act on the status, and people read the text. */
export const refusals = {
  ending: () => new HttpRefusal(503, 'rollout server is shutting down', retryAfter),
  drained: () => new HttpRefusal(503, 'rollout admissions are drained', retryAfter),
  /** @param what - is not there now, as in `the outbox cannot be written to` */
  unavailable: (what: string) => new HttpRefusal(503, `${what}; retry later`, retryAfter),
  full: (status: 429 | 503) =>
    new HttpRefusal(status, 'rollout queue is full; retry later', retryAfter),
  registered: () => new HttpRefusal(409, 'rollout_id is already registered'),
  contradicted: () =>
    new HttpRefusal(409, 'rollout_id is already in use by a rollout with another body'),
} as const
