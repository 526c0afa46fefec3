import { jsonAnswer, type RouteAnswer } from './route-answer.ts'

/** One thing that is wrong with a request body, in the shape that FastAPI peers know. */
export interface BodyProblem {
  readonly type: string
  readonly loc: readonly (string | number)[]
  readonly msg: string
}

/** Why a request is not served: thrown by a route, answered with {@link HttpRefusal.toAnswer}. */
export class HttpRefusal extends Error {
  override readonly name = 'HttpRefusal'
  readonly status: number
  readonly #detail: string | readonly BodyProblem[]
  readonly #headers: Readonly<Record<string, string>>

  constructor(
    status: number,
    detail: string | readonly BodyProblem[],
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(`HTTP ${status}`)
    this.status = status
    this.#detail = detail
    this.#headers = headers
  }

  toAnswer(): RouteAnswer {
    const answer = jsonAnswer({ detail: this.#detail }, this.status)
    return { ...answer, headers: { ...answer.headers, ...this.#headers } }
  }
}
