import { randomBytes, randomUUID } from 'node:crypto'
import { devNull } from 'node:os'

import {
  createController,
  type Controller,
  type PolicyModel,
  type ServerAddress,
  overhear,
  type RolloutOrder,
  type RolloutOutcome,
  type RunOptions,
} from '@osmosis/controller'
import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import type { RolloutStatus } from '@osmosis/protocol'
import { untilAborted } from '@osmosis/core/http'

import { messageLines } from '../../try/test/run-row.ts'
import { closing, abortOnInterrupt, survivingStrayRejections } from '../../command/process.ts'
import { interruptedExitCode } from '../../command/exit-codes.ts'
import {
  fromHere,
  hideKey,
  oneLine,
  printError,
  printJson,
  printOut,
} from '../../command/surroundings.ts'
import { startServerProcess } from '../../eval/models/server-process.ts'
import { openPolicy, policyChoice, type ChosenPolicy } from '../../inputs/choose-policy.ts'
import { readEnvironment } from '../../inputs/environment.ts'
import type { SendFlags } from '../send.ts'
import { planSend, type SendPlan } from './send-plan.ts'

/**
 * Sends one row to a rollout server, which it starts or which runs already, and shows the rollout. Resolves
 * with the exit code: 0 for a success, 1 for another outcome, 130 after Ctrl-C, which cancels the rollout.
 */
export async function sendCommand(
  target: string,
  rowIndex: number,
  flags: SendFlags,
): Promise<number> {
  const environment = readEnvironment()
  const plan = await planSend(target, rowIndex, flags, environment)
  const chosen = await openPolicy(policyChoice(flags, plan.policy), environment)
  return closing(chosen, async () =>
    survivingStrayRejections(async () => send(plan, chosen, { flags, environment })),
  )
}

interface Surroundings {
  readonly flags: SendFlags
  readonly environment: NodeJS.ProcessEnv
}

async function send(
  plan: SendPlan,
  chosen: ChosenPolicy,
  { flags, environment }: Surroundings,
): Promise<number> {
  const listener = conversationOutput({
    conversation: print,
    warning: (line) => say(`warning: ${line}`),
  })
  const policy = flags.json ? chosen.policy : overheard(chosen.policy, listener)
  const interrupt = abortOnInterrupt()
  const { signal } = interrupt
  try {
    const sent = await closing(await openController(policy, flags), async (controller) =>
      closing(await openServer(plan, { flags, environment, signal }), async (server) => {
        try {
          return await sendTo(server, plan, { controller, signal })
        } catch (error) {
          throw await server.explain(error)
        }
      }),
    )
    if (flags.json) printJson(toDocument(plan, sent))
    else print(`reward: ${rewardText(sent)}`)
    if (signal.aborted) return interruptedExitCode
    return sent.status === 'success' ? 0 : 1
  } catch (error) {
    if (signal.aborted && error === signal.reason) return interruptedExitCode
    throw error
  } finally {
    interrupt.release()
  }
}

function print(line: string): void {
  printOut(`${line}\n`)
}

function say(line: string): void {
  printError(`${line}\n`)
}

async function openController(
  policy: PolicyModel,
  { policyHost: host }: SendFlags,
): Promise<Controller> {
  try {
    const policyToken = randomBytes(32).toString('base64url')
    hideKey(policyToken)
    return await createController({ policy, host, policyToken })
  } catch (error) {
    if (isOsmosisError(error)) throw error
    const message = `--policy-host must be an address of this machine: ${errorMessage(error)}.`
    throw new OsmosisError('invalid_config', message)
  }
}

interface OpenedServer extends ServerAddress, AsyncDisposable {
  /** Aborted, with the reason, when the server has exited. */
  readonly died: AbortSignal
  /** A more specific error than `failure`, if known. */
  explain(failure: unknown): Promise<unknown>
}

async function openServer(
  { target, secrets }: SendPlan,
  parts: Surroundings & { readonly signal: AbortSignal },
): Promise<OpenedServer> {
  if (target.kind === 'server') {
    const { url, apiKey } = target
    return {
      url,
      ...(apiKey === undefined ? {} : { apiKey }),
      died: new AbortController().signal,
      explain: async (failure) => failure,
      [Symbol.asyncDispose]: async () => {},
    }
  }
  const { entrypoint, folder } = target
  const { flags, environment, signal } = parts
  const env = { ...environment, ...target.env, ...secrets }
  const server = await startServerProcess({ entrypoint, folder, env }, signal)
  server.logTo(flags.serverLog === undefined ? devNull : fromHere(flags.serverLog))
  if (server.kind === 'workflow') return server
  await server.close()
  throw new OsmosisError(
    'invalid_config',
    `${entrypoint} exports an agent loop, and rollout send is for workflows. Try the loop with osmosis test.`,
  )
}

async function sendTo(
  { url, apiKey, died }: OpenedServer,
  { row, dataset, agentTimeoutSeconds, graderTimeoutSeconds }: SendPlan,
  parts: {
    readonly controller: Controller
    readonly signal: AbortSignal
  },
): Promise<SentRollout> {
  const { controller, signal } = parts
  const rolloutId = `send-${row.sourceRowIndex}-${randomUUID().slice(0, 8)}`
  say(`Sending row ${row.sourceRowIndex} of ${dataset} to ${url} as ${rolloutId}`)
  const order = {
    rolloutId,
    initialMessages: row.initialMessages.map((message) => ({ ...message })),
    label: row.label,
    metadata: row.metadata,
    extraFields: { row_index: row.sourceRowIndex },
    agentTimeoutSeconds,
    graderTimeoutSeconds,
  }
  const server = { url, ...(apiKey === undefined ? {} : { apiKey }) }
  // A server at a URL may restart, so it is polled until the lease expires.
  return untilAborted(died, async () => sendRollout(controller, order, { server, signal }))
}

/** Several samples are shown with their ids. */
function rewardText({ samples }: SentRollout): string {
  const rewards = [...samples.values()].map(({ id, reward }) => [id, reward ?? 'none'] as const)
  if (rewards.length > 1) return rewards.map((words) => words.join(' ')).join(', ')
  return String(rewards[0]?.[1] ?? 'none')
}

function toDocument({ row }: SendPlan, sent: SentRollout): object {
  const { rolloutId, status, samples, errorCategory, policyCalls, usage } = sent
  const all = [...samples.values()]
  const sample = all.length === 1 ? all[0] : undefined
  return {
    rollout_id: rolloutId,
    row_index: row.sourceRowIndex,
    status,
    reward: sample?.reward ?? null,
    err_message: sent.errorMessage,
    err_category: errorCategory,
    messages: sample?.messages ?? null,
    metrics: sample?.metrics ?? null,
    ...(all.length > 1 && {
      samples: Object.fromEntries(
        all.map(({ id, reward, messages, metrics }) => [id, { reward, messages, metrics }]),
      ),
    }),
    policy_calls: policyCalls,
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
  }
}

/**
 * Shows conversations while they run, at least a line for each message. With concurrent conversations, a
 * line names the sample of the next messages.
 */
function conversationOutput(output: {
  readonly conversation: (line: string) => void
  readonly warning: (line: string) => void
}): PolicyListener {
  const shown = new Map<string, number>()
  let latest: string | undefined

  function show(sampleId: string, messages: Parameters<typeof messageLines>[0]): void {
    const lines = messageLines(messages)
    const before = shown.get(sampleId) ?? 0
    // A shorter conversation was rewritten, so all of it is shown.
    const next = lines.slice(before > lines.length ? 0 : before)
    shown.set(sampleId, lines.length)
    if (next.length === 0) return
    if (latest !== undefined && latest !== sampleId) output.conversation(`--- ${sampleId}`)
    latest = sampleId
    for (const line of next) output.conversation(line)
  }
  return {
    onCall: show,
    onAnswer: show,
    onRefusal: (status, text) =>
      output.warning(`The policy gave no answer (${status}): ${oneLine(text)}`),
  }
}

type Message = Readonly<Record<string, unknown>>

/** Receives the messages between agents and the policy. */
interface PolicyListener {
  /** The messages of a model call. */
  onCall(sampleId: string, messages: readonly Message[]): void
  /** The answer; it is the last of `messages`. */
  onAnswer(sampleId: string, messages: readonly Message[]): void
  /** The policy refused the call. */
  onRefusal(status: number, text: string): void
}

/** Passes the model calls of a policy to a listener. Answers are unchanged. */
function overheard(policy: PolicyModel, listener: PolicyListener): PolicyModel {
  return overhear(policy, ({ sampleId, body }) => {
    const sent: unknown = body['messages']
    const messages = Array.isArray(sent) ? (sent as Message[]) : []
    listener.onCall(sampleId, messages)
    return {
      onAnswer: ({ choices }) =>
        listener.onAnswer(sampleId, [...messages, { ...choices[0]?.message }]),
      onBroken: (reason) => listener.onRefusal(200, reason),
      onRefusal: (status, text) => listener.onRefusal(status, text),
    }
  })
}

/** The outcome of a rollout. */
interface SentRollout extends Omit<RolloutOutcome, 'status'> {
  readonly status: RolloutStatus
}

/**
 * Sends a rollout and waits for its outcome, and prints its status and the reason of a failure. When `signal`
 * aborts, the rollout is cancelled.
 *
 * @throws OsmosisError with code `unauthorized` or `protocol_error`
 */
async function sendRollout(
  controller: Controller,
  order: RolloutOrder & { readonly rolloutId: string },
  options: {
    readonly server: ServerAddress
    readonly signal: AbortSignal
  },
): Promise<SentRollout> {
  const { server, signal } = options
  let said = ''
  const onStatus = (status: RolloutStatus): void => {
    if (status !== said) say(`status: ${status}`)
    said = status
  }
  let last: RolloutOutcome | undefined
  const run: RunOptions = {
    server,
    signal,
    fetchResult: true,
    onStatus,
    onTerminal: (outcome) => void (last = outcome),
  }
  try {
    await controller.run(order, run)
  } catch (error) {
    if (!signal.aborted) throw error
  }
  if (last === undefined) throw signal.reason
  const status = last.status === 'timeout' ? 'failure' : last.status
  onStatus(status)
  if (status === 'failure') {
    const { errorMessage: reason, errorCategory } = last
    say(`error: ${reason ?? 'no reason was given'} (${errorCategory ?? 'no category'})`)
  }
  return { ...last, status }
}
