import path from 'node:path'

import {
  createController,
  recordPolicy,
  scriptedPolicy,
  type PolicyModel,
} from '@osmosis/controller'
import {
  createRun,
  type EvaluatedModel,
  toRunRow,
  workflowRunner,
  type RunStore,
} from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'
import { onTestFinished } from 'vitest'

import { HttpPeer, journalEvents, madeManifest, type PeerRequest } from '../../../test/kit/index.ts'
import { datasetRows } from './evaluations.ts'

/** The store of a new run named `r`, with this number of rows. */
export async function newRun(outputRoot: string, rows: number, n = 1): Promise<RunStore> {
  const store = await createRun({
    outputRoot,
    manifest: madeManifest({ run_name: 'r', n, rows: datasetRows(rows).map(toRunRow) }),
  })
  onTestFinished(async () => store.close())
  return store
}

/** The events that the journal of a run holds now. */
export function journalOf({ location }: Pick<RunStore, 'location'>): ItemEvent[] {
  return journalEvents(path.join(location, 'events.jsonl'))
}

interface Order {
  rollout_id: string
  initial_messages: { content: string }[]
  chat_completions_url: string
  controller_api_key: string
  llm_api_key: string
  completion_callback_url: string
  grader_callback_url: string
}

/**
 * A rollout server in a few lines: asks the policy once per rollout, and gives 1 for an answer `yes`. An
 * answer with an error status fails the rollout.
 */
class AskingServer extends HttpPeer {
  /** The status of each acknowledgement of a result, and how many events were in the journal then. */
  readonly acknowledged: [status: number, journal: number][] = []
  journal = (): number => 0

  protected receive({ body }: PeerRequest, response: Parameters<HttpPeer['receive']>[1]): void {
    response.writeHead(202).end('{}')
    if ('rollout_id' in body) void this.#run(body as unknown as Order)
  }

  async #run(order: Order): Promise<void> {
    const callback = async (url: string, sent: object): Promise<number> => {
      const body = { rollout_id: order.rollout_id, ...sent }
      return (await send(url, order.controller_api_key, body)).status
    }
    const answer = await send(
      `${order.chat_completions_url}/chat/completions`,
      order.llm_api_key,
      { model: 'm', messages: order.initial_messages },
      { 'x-sample-id': 'main' },
    )
    const failure = { status: 'failure', err_message: 'no answer', err_category: 'http_error' }
    if (!answer.ok) {
      await callback(order.completion_callback_url, failure)
      await callback(order.grader_callback_url, { ...failure, samples: {} })
      return
    }
    type Said = Readonly<Record<'content' | 'refusal', string | null | undefined>>
    const said = (await answer.json()) as { choices: [{ message: Said }] }
    const [{ message: own }] = said.choices
    // Frameworks have a refusal as text.
    const message = { role: 'assistant', content: own.content ?? own.refusal ?? '' }
    await callback(order.completion_callback_url, { status: 'success' })
    const sample = {
      id: 'main',
      messages: [...order.initial_messages, message],
      reward: message.content === 'yes' ? 1 : 0,
      metrics: { length: message.content.length },
    }
    const end = { status: 'success', samples: { main: sample } }
    const status = await callback(order.grader_callback_url, end)
    this.acknowledged.push([status, this.journal()])
    this.wake()
  }
}

async function send(
  url: string,
  key: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers },
    body: JSON.stringify(body),
  })
}

/** A model whose rollouts run at a server and ask `policy`. */
export async function askingModel(
  policy: PolicyModel,
): Promise<{ readonly model: EvaluatedModel; readonly server: AskingServer }> {
  const server = await new AskingServer().start()
  const recorded = recordPolicy(policy)
  const controller = await createController({ policy: recorded, server: { url: server.url } })
  onTestFinished(async () => {
    await controller.close()
    await server[Symbol.asyncDispose]()
  })
  return { model: { name: 'm', runner: workflowRunner(controller, { recorded }) }, server }
}

/** A policy that answers these statuses one after the other, the last one for ever; 200 says yes. */
export function answering(...statuses: number[]): PolicyModel {
  const yes = scriptedPolicy(() => 'yes')
  return {
    name: 'p',
    respond: async (request) => {
      const [status = 200] = statuses.length > 1 ? statuses.splice(0, 1) : statuses
      return status === 200 ? yes.respond(request) : new Response('sorry', { status })
    },
  }
}
