import { randomBytes, randomUUID } from 'node:crypto'
import { devNull } from 'node:os'

import {
  createPolicyEndpoint,
  createRolloutClient,
  type PolicyEndpoint,
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
import { watchRollout, type SentRollout } from './watch-rollout.ts'
import { fromHere, hideSecrets, printError, printJson, printOut } from '../surroundings.ts'

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
    const sent = await closing(await openEndpoint(policy, flags), async (endpoint) =>
      closing(await openServer(plan, { flags, environment, signal }), async (server) => {
        try {
          return await sendTo(server, plan, { endpoint, signal })
        } catch (error) {
          throw await server.explain(error)
        }
      }),
    )
    if (flags.json) printJson(toDocument(plan, sent))
    else print(`reward: ${sent.result?.sample?.reward ?? 'none'}`)
    if (signal.aborted) return interruptedExitCode
    return sent.result?.status === 'success' ? 0 : 1
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

async function openEndpoint(
  policy: PolicyModel,
  { policyHost: host }: SendFlags,
): Promise<PolicyEndpoint> {
  try {
    const policyToken = randomBytes(32).toString('base64url')
    hideSecrets({ 'The key of the policy': policyToken })
    return await createPolicyEndpoint({ policy, host, policyToken })
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
    readonly endpoint: PolicyEndpoint
    readonly signal: AbortSignal
  },
): Promise<SentRollout> {
  const { endpoint, signal } = parts
  const client = createRolloutClient({ baseUrl: url, ...(apiKey === undefined ? {} : { apiKey }) })
  return closing(client, async () => {
    const unique = randomUUID().slice(0, 8)
    const access = endpoint.admit(`send-${row.sourceRowIndex}-${unique}`)
    const { rolloutId, chatCompletionsUrl, llmApiKey } = access
    say(`Sending row ${row.sourceRowIndex} of ${dataset} to ${url} as ${rolloutId}`)
    const handle = await client.run(
      {
        rolloutId,
        chatCompletionsUrl,
        llmApiKey,
        initialMessages: row.initialMessages.map((message) => ({ ...message })),
        label: row.label,
        metadata: row.metadata,
        extraFields: { row_index: row.sourceRowIndex },
        agentTimeoutSeconds,
        graderTimeoutSeconds,
      },
      { signal },
    )
    // Others may come back, and are asked as long as the lease may last.
    const result = await untilAborted(died, async () => watchRollout(handle, { say, signal }))
    return { rolloutId, result, policyCalls: access.policyCalls, usage: access.usage }
  })
}

function toDocument(
  { row }: SendPlan,
  { rolloutId, result, policyCalls, usage }: SentRollout,
): object {
  const sample = result?.sample ?? null
  return {
    rollout_id: rolloutId,
    row_index: row.sourceRowIndex,
    status: result?.status ?? 'unknown',
    reward: sample?.reward ?? null,
    err_message: result?.errorMessage ?? null,
    err_category: result?.errorCategory ?? null,
    messages: sample?.messages ?? null,
    metrics: sample?.metrics ?? null,
    policy_calls: policyCalls,
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
  }
}
