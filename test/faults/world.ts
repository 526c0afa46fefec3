import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

import type { Account, DeliveryKind } from './account.ts'
import type { BrokenDelivery } from './broken-delivery.ts'
import { acknowledge, isFinal } from './callback-faults.ts'
import type { Chance } from './chance.ts'
import { answerCall } from './policy-faults.ts'

interface ModelRequest {
  readonly stream?: boolean
  readonly rollout_id?: string
  readonly messages: readonly { readonly role: string; readonly content: string }[]
}

/** Parts of the callers' side. */
export interface WorldParts {
  readonly account: Account
  readonly chance: Chance
  readonly broken: BrokenDelivery
  /** How long a caller waits for the end of its rollout. */
  readonly patienceSeconds: number
  /** How long the policy takes for a call. Milliseconds; default 0. */
  readonly policyMs?: (id: string, call: number) => number
  /**
   * Whether the policy always answers, and listeners only fail in ways after which a callback is sent again
   * immediately. Default: false.
   */
  readonly mild?: boolean
}

/** The callers' side of all protocols on one port: policies, callback listeners, trainers. */
export class World {
  readonly #parts: WorldParts
  /** Number of tries of each model call and callback, by name. */
  readonly #attempts = new Map<string, number>()
  readonly #http = createServer((incoming, outgoing) => {
    text(incoming).then(
      (body) => this.#receive(incoming.url ?? '', incoming.headers, body, outgoing),
      // The request was aborted.
      () => outgoing.destroy(),
    )
  })

  constructor(parts: WorldParts) {
    this.#parts = parts
  }

  async start(): Promise<this> {
    this.#http.listen(0, '127.0.0.1', 4096)
    await once(this.#http, 'listening')
    return this
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`
  }

  close(): void {
    this.#http.close()
    this.#http.closeAllConnections()
  }

  #receive(path: string, headers: IncomingHttpHeaders, body: string, out: ServerResponse): void {
    const { account } = this.#parts
    const [, id = ''] = path.split('/')
    if (path.endsWith('/started')) {
      account.started(id, body)
      return void out.end()
    }
    const key = headers.authorization
    if (key !== `Bearer key-${id}`) account.violated(id, `${path} was called with the key ${key}`)
    if (path.endsWith('/chat/completions')) return this.#ask(id, headers, body, out)
    const kind = path.endsWith('/completion')
      ? 'completion'
      : path.endsWith('/grader')
        ? 'grader'
        : 'result'
    const name = headers['idempotency-key']
    if (kind !== 'result' && name !== `${id}/${kind}`)
      account.violated(id, `its ${kind} was delivered with the idempotency key ${String(name)}`)
    return this.#receiveDelivery(id, kind, body, out)
  }

  #ask(id: string, headers: IncomingHttpHeaders, body: string, out: ServerResponse): void {
    const { account, chance, mild = false, policyMs } = this.#parts
    const { stream = false, rollout_id, messages } = JSON.parse(body) as ModelRequest
    const named = headers['x-rollout-id'] ?? rollout_id
    if (named !== id) account.violated(id, `the policy was called with the id ${String(named)}`)
    const [call = '', process = ''] = messages.at(-1)?.content.split(' ') ?? []
    account.called(id, process)
    for (const [index, { content }] of messages
      .filter(({ role }) => role === 'assistant')
      .entries()) {
      if (content === account.answer(id, index)) continue
      account.violated(id, `the policy received ${content} as its own earlier answer`)
    }
    const number = this.#count(`${id} call ${call}`)
    const answer = account.answer(id, Number(call))
    const wholly = (): void => account.answered(id, Number(call))
    const luck = mild ? 1 : chance(id, 'policy', call, number)
    const reply = (): void => {
      const fault = answerCall(out, { chance: luck, stream, answer, wholly })
      if (fault !== undefined) account.fault(`policy: ${fault}`)
    }
    if (policyMs === undefined) reply()
    else setTimeout(reply, policyMs(id, Number(call)))
  }

  #receiveDelivery(id: string, kind: DeliveryKind, body: string, out: ServerResponse): void {
    const { account, chance, broken, mild = false } = this.#parts
    const number = this.#count(`${id} ${kind}`)
    for (const received of broken(id, kind, body)) account.delivered(id, kind, received)
    // After some tries the listener always answers.
    const luck = number < 3 ? chance(id, kind, number) : 1
    const fault = acknowledge(out, luck, mild)
    if (fault !== undefined) account.fault(`listener: ${fault}`)
    if (isFinal(fault)) account.settled(id, kind)
  }

  #count(name: string): number {
    const before = this.#attempts.get(name) ?? 0
    this.#attempts.set(name, before + 1)
    return before
  }
}
