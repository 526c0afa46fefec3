import { randomBytes, randomUUID } from 'node:crypto'
import { devNull } from 'node:os'

import {
  createController,
  type Controller,
  type PolicyModel,
  type ServerAddress,
} from '@osmosis/controller'
import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'

import { openPolicy, policyChoice, type ChosenPolicy } from '../choose-policy.ts'
import { closing } from '../closing.ts'
import { readEnvironment } from '../environment.ts'
import { startServerProcess } from '../eval-run/server-process.ts'
import { abortOnInterrupt, interruptedExitCode } from '../interrupt.ts'
import { survivingStrayRejections } from '../stray-rejections.ts'
import { conversationOutput } from './conversation-output.ts'
import { overheard } from './overheard-policy.ts'
import type { SendFlags } from './rollout-commands.ts'
import { planSend, type SendPlan } from './send-plan.ts'
import { sendRollout, type SentRollout } from './send-rollout.ts'
import { fromHere, hideKey, printError, printJson, printOut } from '../surroundings.ts'

/**
 * Sends one row to a rollout server, its own or one that runs already, and shows what becomes of it.
 * Resolves with the exit code: 0 for a success, 1 for any other end, 130 after Ctrl-C, which cancels the
 * rollout.
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
  /** Aborted, with the reason, when it will never answer again. */
  readonly died: AbortSignal
  /** The better reason for a failure, if there is one. */
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
  // Others may come back, and are asked as long as the lease may last.
  return untilAborted(died, async () => sendRollout(controller, order, { server, say, signal }))
}

/** Of several samples each with its name: servers that know callbacks only may have them. */
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
