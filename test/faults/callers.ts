import { setTimeout as sleep } from 'node:timers/promises'

import { createRolloutClient, type RolloutClient } from '@osmosis/controller'
import { isOsmosisError } from '@osmosis/core'

import type { Plan } from './plan.ts'
import type { WorldParts } from './world.ts'

/** The URLs of all servers. */
export interface Places {
  /** Listeners of the callers. */
  readonly world: string
  readonly workflows: string
  readonly loops: string
  /** The server of workflows behind a proxy that loses polls. */
  readonly lossy: string
}

interface Answer {
  readonly status: number
  readonly text: string
}

interface Lease {
  readonly polling_lease_token: string
}

const json = { 'content-type': 'application/json' }

/** What a rollout goes through if nothing ends it. */
const statuses = ['queued', 'running', 'grading', 'success']

/** Whether a rollout, whose status is not known without an answer, may still come to a status. */
function isBefore(status: string | undefined, wanted: string): boolean {
  if (status === undefined) return true
  return statuses.includes(status) && statuses.indexOf(status) < statuses.indexOf(wanted)
}

/** Sends rollouts as controllers, pollers and trainers do, and waits for their outcomes. */
export class Callers {
  readonly #parts: WorldParts
  readonly #places: Places
  readonly #client: RolloutClient

  constructor(parts: WorldParts, places: Places) {
    this.#parts = parts
    this.#places = places
    this.#client = createRolloutClient({ baseUrl: places.lossy })
  }

  async close(): Promise<void> {
    await this.#client.close()
  }

  /** Resolves when the caller has received the outcome, or has given up. */
  async drive(plan: Plan): Promise<void> {
    const { account, patienceSeconds } = this.#parts
    account.open(plan)
    const over = new AbortController()
    const driven = {
      callbacks: async () => this.#sendWithCallbacks(plan),
      client: async () => this.#follow(plan),
      poller: async () => this.#poll(plan),
      trainer: async () => this.#train(plan),
    }[plan.kind]()
    const late = sleep(patienceSeconds * 1000, 'late', { signal: over.signal }).catch(
      () => undefined,
    )
    try {
      if ((await Promise.race([driven, late])) === 'late') account.violated(plan.id, 'has no end')
    } catch (error) {
      account.violated(plan.id, `its caller failed: ${String(error)}`)
    } finally {
      over.abort()
    }
  }

  async #sendWithCallbacks(plan: Plan): Promise<void> {
    const { account } = this.#parts
    const { id, graded } = plan
    const { grade: _, ...body } = this.#body(plan)
    const url = `${this.#places.workflows}/rollout`
    const order = {
      ...body,
      controller_api_key: `key-${id}`,
      completion_callback_url: `${this.#places.world}/${id}/completion`,
      grader_callback_url: graded ? `${this.#places.world}/${id}/grader` : null,
    }
    const { status, text } = await this.#persist(url, order)
    if (status !== 202) return account.violated(id, `was refused with ${status}: ${text}`)
    account.accepted(id)
    await Promise.all([
      account.ended(id),
      this.#cancelLater(plan),
      this.#sendAgain(plan, url, order, { same: 202, other: 409 }),
    ])
  }

  async #train(plan: Plan): Promise<void> {
    const { account } = this.#parts
    const { id, row } = plan
    const url = `${this.#places.loops}/v1/rollout/init`
    const order = {
      rollout_id: id,
      server_url: `${this.#places.world}/${id}`,
      messages: [],
      completion_params: {},
      metadata: row,
      api_key: `key-${id}`,
    }
    const { status, text } = await this.#persist(url, order)
    if (status !== 202) return account.violated(id, `was refused with ${status}: ${text}`)
    account.accepted(id)
    await Promise.all([
      account.ended(id),
      this.#sendAgain(plan, url, order, { same: 202, other: 202 }),
    ])
  }

  async #poll(plan: Plan): Promise<void> {
    const { account, broken, chance } = this.#parts
    const { id } = plan
    const url = `${this.#places.workflows}/rollout`
    const order = this.#body(plan)
    const answer = await this.#sendOnce(url, order)
    if (answer === undefined) return account.lost(id)
    if (answer.status !== 202) {
      return account.violated(id, `was refused with ${answer.status}: ${answer.text}`)
    }
    account.accepted(id)
    const { polling_lease_token: token } = JSON.parse(answer.text) as Lease
    const others = Promise.all([
      this.#cancelLater(plan),
      this.#sendAgain(plan, url, order, { same: 409, other: 409 }),
    ])
    for (let polls = 0, readings = 0; readings < 3; polls += 1) {
      const signal = chance(id, 'poll', polls) < 0.1 ? AbortSignal.timeout(30) : undefined
      if (signal) account.fault('poller: hangs up')
      const headers = { 'x-osmosis-rollout-lease': token }
      const result = await ask(`${url}/${id}/result`, { headers, signal: signal ?? null })
      if (result === undefined || result.status === 503) await sleep(100)
      else if (result.status !== 200) {
        return account.violated(id, `its result was answered with ${result.status}: ${result.text}`)
      } else if (/"status":"(success|failure|cancelled)"/.test(result.text)) {
        for (const body of broken(id, 'result', result.text)) account.delivered(id, 'result', body)
        // Every request must get the same bytes.
        readings += 1
      }
    }
    await Promise.all([others, account.ended(id)])
  }

  async #follow(plan: Plan): Promise<void> {
    const { account, broken } = this.#parts
    const { id } = plan
    const body = this.#body(plan)
    for (;;) {
      try {
        const handle = await this.#client.run({
          rolloutId: id,
          initialMessages: [],
          metadata: { ...plan.row },
          chatCompletionsUrl: body.chat_completions_url,
          llmApiKey: body.llm_api_key,
          grade: plan.graded,
          agentTimeoutSeconds: body.agent_timeout_sec,
          graderTimeoutSeconds: body.grader_timeout_sec,
        })
        account.accepted(id)
        const cancelling = this.#cancelLater(plan)
        const result = await handle.waitFor('completed').catch(() => undefined)
        await cancelling
        if (result === undefined) return await this.#lookUp(id)
        const { status, errorMessage: err_message, sample } = result
        const outcome = {
          rollout_id: id,
          status,
          err_message,
          sample: sample && { reward: sample.reward },
        }
        for (const received of broken(id, 'result', JSON.stringify(outcome)))
          account.delivered(id, 'result', received)
        return await account.ended(id)
      } catch (error) {
        if (!isOsmosisError(error)) throw error
        if (error.message.includes('may have been admitted')) return account.lost(id)
        await sleep(200)
      }
    }
  }

  /** The client gives up when a server is unreachable for longer than the lease; the server knows the outcome. */
  async #lookUp(id: string): Promise<void> {
    for (;;) {
      const state = await this.state(id)
      if (state !== undefined && ['success', 'failure', 'cancelled'].includes(state.status)) {
        return this.#parts.account.lookedUp(id, state)
      }
      await sleep(500)
    }
  }

  /**
   * Compares the status of ended rollouts with their delivered outcomes.
   *
   * @param mayForget - whether servers may have forgotten rollouts
   */
  async checkStates({ mayForget }: { mayForget: boolean }): Promise<void> {
    const { account } = this.#parts
    for (const { plan, end, admission } of account.ends()) {
      if (plan.kind === 'trainer' || end === undefined || admission !== 'accepted') continue
      const state = await this.state(plan.id)
      if (state === undefined || (mayForget && state.status === 'unknown')) continue
      account.checkState(plan.id, state)
    }
  }

  /** The answer of the status route; undefined without an answer. */
  async state(id: string): Promise<{ status: string; reward: number | null } | undefined> {
    const answer = await ask(`${this.#places.workflows}/rollout/${id}/status`)
    if (answer?.status !== 200) return undefined
    return JSON.parse(answer.text) as { status: string; reward: number | null }
  }

  async #cancelLater({ id, cancelMs, cancelIn = 'queued' }: Plan): Promise<void> {
    if (cancelMs === undefined) return
    await sleep(cancelMs)
    let state = await this.state(id)
    while (isBefore(state?.status, cancelIn)) {
      await sleep(20)
      state = await this.state(id)
    }
    this.#parts.account.fault(`caller: cancels a rollout that is ${state?.status ?? 'not known'}`)
    const answer = await post(`${this.#places.workflows}/rollout/cancel`, { ids: [id] })
    if (answer?.status !== 200) this.#parts.account.perhapsCancelled(id)
    else if (answer.text.includes('"cancelled_')) this.#parts.account.cancelled(id)
  }

  /** Sends an accepted request a second time. */
  async #sendAgain(
    { id, repeated, row }: Plan,
    url: string,
    order: object,
    expected: Readonly<Record<'same' | 'other', number>>,
  ): Promise<void> {
    if (repeated === undefined) return
    const { account, chance } = this.#parts
    await sleep(chance(id, 'again') * 1500)
    account.fault(`caller: sends the ${repeated} body again`)
    const body = repeated === 'same' ? order : { ...order, metadata: { ...row, other: true } }
    const answer = await post(url, body)
    // A full or draining server refuses before it checks the id.
    if (answer === undefined || [429, 503, expected[repeated]].includes(answer.status)) return
    account.violated(id, `sent again (${repeated} body), it was answered with ${answer.status}`)
  }

  #body({ id, row, graded, deadline, graderDeadline = deadline }: Plan) {
    return {
      rollout_id: id,
      initial_messages: [],
      metadata: row,
      chat_completions_url: `${this.#places.world}/${id}/v1`,
      llm_api_key: `key-${id}`,
      grade: graded,
      agent_timeout_sec: deadline,
      grader_timeout_sec: graderDeadline,
    }
  }

  /** Repeats a request until its answer is final. */
  async #persist(url: string, body: object): Promise<Answer> {
    for (;;) {
      const answer = await post(url, body)
      if (answer !== undefined && answer.status !== 429 && answer.status !== 503) return answer
      await sleep(200)
    }
  }

  /** Sends a request that must not be repeated when its answer is lost. */
  async #sendOnce(url: string, body: object): Promise<Answer | undefined> {
    for (;;) {
      const before = await ask(`${this.#places.workflows}/health`)
      if (before !== undefined) {
        const answer = await post(url, body)
        if (answer === undefined) return undefined
        if (answer.status !== 429 && answer.status !== 503) return answer
      }
      await sleep(200)
    }
  }
}

async function post(url: string, body: object): Promise<Answer | undefined> {
  return ask(url, { method: 'POST', headers: json, body: JSON.stringify(body) })
}

/** Undefined when the answer is missing or incomplete. */
async function ask(url: string, init: RequestInit = {}): Promise<Answer | undefined> {
  try {
    const answer = await fetch(url, init)
    return { status: answer.status, text: await answer.text() }
  } catch {
    return undefined
  }
}
