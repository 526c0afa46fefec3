import { invalid } from '../../command/exit-codes.ts'
import { availableParallelism } from 'node:os'
import path from 'node:path'

import {
  createController,
  createTrainer,
  patientPolicy,
  policyAnswers,
  recordPolicy,
  watchPolicy,
  type PatientPolicy,
  type PatientPolicyOptions,
  type PolicyModel,
  type RecordedPolicy,
} from '@osmosis/controller'
import {
  assertRowsFit,
  loopRunner,
  workflowRunner,
  type EvaluatedModel,
  type ItemRunner,
  type PolicyHealth,
} from '@osmosis/eval'
import { healthResponseSchema } from '@osmosis/protocol/wire'

import { hideKeys } from '../../command/command-context.ts'
import type { ChosenPolicy } from '../../inputs/choose-policy.ts'
import type { EvalRunFlags } from '../run.ts'
import type { EvalRunPlan } from './evaluation-plan.ts'
import type { InFlight, ServedFacts } from './run-output.ts'
import { namingEndpoint, policyAdvice } from '../../inputs/policy-advice.ts'
import {
  askHealth,
  attachServer,
  type EvaluatedServer,
  watchThread,
  type WatchedThread,
} from '../models/remote-servers.ts'
import { startServerProcess } from '../../serve/server-process.ts'

/** Concurrent rollouts when neither the flags nor the config nor the server set a limit. */
const defaultInFlight = 16

/** Time limit of a health check. Milliseconds. */
const healthMs = 10_000

/** Options of {@link serveModel}. */
export interface ServeModelOptions {
  readonly plan: EvalRunPlan
  readonly flags: EvalRunFlags
  /** Environment of the process of the entrypoint, to which the plan adds variables. */
  readonly environment: NodeJS.ProcessEnv
  /** The folder of the run, for its artifacts; it may not exist yet. */
  readonly runFolder: string
  /** Attempts at each row. */
  readonly attempts: number
  /** Aborts the start. */
  readonly signal: AbortSignal
}

/** The model of an evaluation, with the server that runs its rollouts. */
export interface ServedModel extends ServedFacts {
  readonly model: EvaluatedModel
  readonly kind: EvaluatedServer['kind']
  /** Whether the attempts at a row are graded together. */
  readonly gradesGroups: boolean
  /** Appends the output of the process of the entrypoint to a file. */
  readonly logTo: (file: string) => void
  /** Sets the listener for calls that wait because their endpoint refused them. */
  readonly onWait: (listener: PatientPolicyOptions['onWait']) => void
  /** Aborted, with the reason, when the process of the entrypoint ends. */
  readonly died: AbortSignal
  /** A sentence about how to make the run shorter; undefined without one. */
  advise(): Promise<string | undefined>
  /** Ends that process, then the controller or trainer that received from it. */
  close(): Promise<void>
}

/**
 * Serves the entrypoint of a plan in a process of its own, or uses a running server. Opens a driver: a
 * controller for a workflow, a trainer for an agent loop.
 *
 * @throws OsmosisError with code `invalid_entrypoint` when it cannot be served, `invalid_config` for
 * flags that do not apply to what it exports
 */
export async function serveModel(
  chosen: ChosenPolicy,
  options: ServeModelOptions,
): Promise<ServedModel> {
  const { plan, flags, runFolder, signal } = options
  const server =
    plan.server === undefined
      ? await serveEntrypoint(options)
      : await attachServer(plan.server, signal)
  const opened: { close(): Promise<void> }[] = [server]
  const close = async (): Promise<void> => {
    for (const part of opened) await part.close()
  }
  let waitListener: PatientPolicyOptions['onWait']
  async function toModel(thread: WatchedThread | undefined): Promise<EvaluatedModel> {
    const watched = watchPolicy(chosen.policy, { advise: policyAdvice(chosen), isAwaited: true })
    const parametrised = server.kind === 'workflow' ? withParams(watched, paramsOf(flags)) : watched
    const price = plan.policy.workspace.prices.get(chosen.name)
    const recorded = recordPolicy(parametrised, { price })
    // Outermost, so that it notices each refusal and the time of waiting does not count as slowness.
    const policy = patientPolicy(recorded, {
      watched,
      onWait: (pauseMs, status) => waitListener?.(pauseMs, status),
    })
    const driver = await openDriver(
      server,
      { policy, recorded, chosen },
      { plan, flags, runFolder },
    )
    opened.push(driver, { close: async () => chosen[Symbol.asyncDispose]() })
    return {
      name: chosen.name,
      policy: healthOf(policy, chosen),
      runner: explaining(driver.runner, server, thread),
    }
  }
  try {
    assertFlagsFit(server, options)
    await assertRowsFit(plan.dataset, plan.rows, server.rowCheck)
    const inFlight = forGroups(await inFlightOf(plan, flags, server), server, options)
    const gradesGroups = server.groupMinSize !== null
    const workersMayHelp =
      !gradesGroups &&
      flags.workers === undefined &&
      plan.queue === undefined &&
      plan.server === undefined &&
      server.kind === 'workflow' &&
      Math.min(availableParallelism(), inFlight.limit) > 1
    const thread = workersMayHelp ? await watchThread(server) : undefined
    return {
      model: await toModel(thread),
      kind: server.kind,
      hasGrader: server.hasGrader,
      limitsCalls: server.limitsCalls,
      inFlight,
      gradesGroups,
      logTo: server.logTo,
      onWait: (listener) => {
        waitListener = listener
      },
      died: server.died,
      advise: async () => thread?.advice(),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** The code of a policy module is called by rollouts only, as before a run. */
function healthOf(policy: PatientPolicy, { choice, policy: asked }: ChosenPolicy): PolicyHealth {
  const isCode = choice.kind === 'module' || choice.kind === 'checkpoint'
  return {
    get failure() {
      return policy.failure
    },
    get refusals() {
      return policy.refusals
    },
    ...(isCode ? {} : { answers: (signal) => policyAnswers(asked, signal) }),
  }
}

async function serveEntrypoint({
  plan,
  flags,
  environment,
  runFolder,
  signal,
}: ServeModelOptions): Promise<EvaluatedServer> {
  const { entrypoint, folder, secrets, queue } = plan
  const artifacts = { _OSMOSIS_ROLLOUT_ARTIFACT_ROOT: path.join(runFolder, 'artifacts') }
  const env = { ...environment, ...plan.env, ...secrets, ...queue?.env, ...artifacts }
  const redis = queue === undefined ? {} : { redis: queue.redis }
  const workers = flags.workers === undefined ? {} : { workers: flags.workers }
  return startServerProcess(
    { entrypoint, folder, env, set: plan.workflow, ...workers, ...redis },
    signal,
  )
}

function assertFlagsFit(
  { kind, groupMinSize, hasGrader }: EvaluatedServer,
  { plan, flags, attempts }: ServeModelOptions,
): void {
  const { rollout, graderTimeoutSeconds } = plan
  const { maxTurns, evalFn = [], grader: wantsGrader } = flags
  if (!hasGrader && evalFn.length === 0 && wantsGrader) {
    throw invalid(
      `Nothing would score the rollouts of ${rollout}: export a class that extends Grader from the entrypoint, pass --eval-fn <file>:<export>, or pass --no-grader to run without.`,
    )
  }
  if (kind === 'workflow' && maxTurns !== undefined) {
    throw invalid(`--max-turns is for agent loops, and ${rollout} exports a workflow.`)
  }
  if (kind === 'agent-loop' && graderTimeoutSeconds !== null) {
    throw invalid(`grader_timeout_s is for workflows, and ${rollout} exports an agent loop.`)
  }
  if (groupMinSize !== null && attempts < groupMinSize) {
    throw invalid(
      `The grader of ${rollout} compares the attempts at a row and needs at least ${groupMinSize} of them (group.minSize of its config), and this run has ${attempts}: pass --n ${groupMinSize} or more.`,
    )
  }
}

/** The policy of a model, with its recording. */
interface ServedPolicy {
  readonly policy: PolicyModel
  readonly recorded: RecordedPolicy
  readonly chosen: ChosenPolicy
}

async function openDriver(
  evaluated: EvaluatedServer,
  { policy, recorded, chosen }: ServedPolicy,
  { plan, flags, runFolder }: Pick<ServeModelOptions, 'plan' | 'flags' | 'runFolder'>,
): Promise<{ readonly runner: ItemRunner; close(): Promise<void> }> {
  const { agentTimeoutSeconds, graderTimeoutSeconds } = plan
  const { kind, url, apiKey } = evaluated
  const server = { url, ...(apiKey === undefined ? {} : { apiKey }) }
  if (kind === 'workflow') {
    const host = plan.server?.policyHost ?? plan.queue?.policyHost
    const controller = await createController({
      policy,
      ...(host === undefined ? {} : { host }),
    })
    hideKeys(controller.policyToken)
    const timeouts = { agentTimeoutSeconds, graderTimeoutSeconds }
    // A server elsewhere stores artifacts on its own machine, and may not reach more of this one than the policy.
    const place = plan.server === undefined ? { runFolder } : { fetchResult: true }
    const options = { server, recorded, ...place, ...timeouts }
    const runner = workflowRunner(namingEndpoint(controller, chosen), options)
    return { runner, close: () => controller.close() }
  }
  const trainer = await createTrainer({ policy })
  const { maxTurns } = flags
  const runner = loopRunner(namingEndpoint(trainer, chosen), {
    server,
    ...(maxTurns === undefined ? {} : { maxTurns }),
    completionParams: paramsOf(flags),
    timeoutSeconds: agentTimeoutSeconds,
    recorded,
  })
  return { runner, close: () => trainer.close() }
}

/** Parameters of the model calls, by their names on the wire. */
export function paramsOf({ maxTokens, temperature }: EvalRunFlags): Record<string, number> {
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
  }
}

/** Overrides the parameters that a workflow sets. */
function withParams(policy: PolicyModel, params: Record<string, number>): PolicyModel {
  if (Object.keys(params).length === 0) return policy
  return {
    name: policy.name,
    respond: (request) => policy.respond({ ...request, body: { ...request.body, ...params } }),
  }
}

/** Explains broken connections by the exit of the process. */
function explaining(
  runner: ItemRunner,
  server: EvaluatedServer,
  thread: WatchedThread | undefined,
): ItemRunner {
  return {
    async run(item, options) {
      thread?.rolloutBegins()
      try {
        return await runner.run(item, options)
      } catch (error) {
        throw await server.explain(error)
      }
    },
  }
}

/** Sends at most as many rollouts as the server has slots: others would wait there while their deadline runs. */
async function inFlightOf(
  { maxInFlight: wanted, queue, server: attached }: EvalRunPlan,
  flags: EvalRunFlags,
  server: EvaluatedServer,
): Promise<InFlight> {
  const { kind, isConfigured } = server
  const source = flags.maxInFlight === undefined ? 'batch_size of the config' : '--max-in-flight'
  const slots = kind === 'agent-loop' ? null : await slotsOf(server)
  // Without slots a queue has no worker yet.
  if (slots !== null && slots > 0 && slots < (wanted ?? Infinity)) {
    const own =
      attached !== undefined
        ? 'the limit of the server'
        : isConfigured
          ? 'the limit in the config of the workflow'
          : 'the default of a workflow without a config'
    return {
      limit: slots,
      why: queue === undefined ? own : 'the limit of the workers of the queue',
    }
  }
  if (wanted !== null) return { limit: wanted, why: source }
  const why = slots === 0 ? 'no worker of the queue has this code yet' : 'nothing sets a limit'
  return { limit: defaultInFlight, why }
}

/** Attempts that are graded together start together, even if some of them wait for a slot. */
function forGroups(
  inFlight: InFlight,
  { groupMinSize }: EvaluatedServer,
  { attempts }: ServeModelOptions,
): InFlight {
  if (groupMinSize === null || inFlight.limit >= attempts) return inFlight
  const why = `raised from ${inFlight.limit}, because the grader sees the ${attempts} attempts at a row together`
  return { limit: attempts, why }
}

/** How many rollouts a server runs concurrently; null without a limit, or when it does not report one. */
async function slotsOf(server: EvaluatedServer): Promise<number | null> {
  const response = await askHealth(server, AbortSignal.timeout(healthMs))
  const health = healthResponseSchema.safeParse(await response.json().catch(() => undefined))
  return health.data?.concurrency.max_concurrent ?? null
}
