import { availableParallelism } from 'node:os'
import path from 'node:path'

import {
  createController,
  createTrainer,
  evaluatedPolicy,
  type EvaluatedPolicy,
  type PatientPolicyOptions,
} from '@osmosis/controller'
import {
  assertRowsFit,
  loopRunner,
  workflowRunner,
  type EvaluatedModel,
  type ItemRunner,
} from '@osmosis/eval'
import { healthResponseSchema } from '@osmosis/protocol/wire'

import { hideKeys } from '../../command/command-context.ts'
import { invalid } from '../../command/wrong-use.ts'
import type { ChosenPolicy } from '../../inputs/choose-policy.ts'
import { namingEndpoint, policyAdvice } from '../../inputs/policy-advice.ts'
import { startServerProcess } from '../../serve/server-process.ts'
import {
  askServer,
  attachServer,
  type EvaluatedServer,
  watchThread,
  type WatchedThread,
} from '../models/remote-servers.ts'
import type { EvalRunPlan, InFlight } from './evaluation-plan.ts'
import type { ServedFacts } from './run-output.ts'

/** Concurrent rollouts when neither the flags nor the config nor the server set a limit. */
const defaultInFlight = 16

/** Where and how often a plan runs. */
interface PlannedRun {
  /** The folder of the run, for its artifacts; it may not exist yet. */
  readonly location: string
  /** Attempts at each row. */
  readonly n: number
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
 * controller for a workflow, a trainer for an agent loop. The caller disposes of `chosen` after it has closed the served model.
 *
 * @param signal - aborts the start
 * @throws OsmosisError with code `invalid_entrypoint` when it cannot be served, `invalid_config` for
 * flags that do not apply to what it exports
 */
export async function serveModel(
  chosen: ChosenPolicy,
  plan: EvalRunPlan,
  run: PlannedRun,
  signal: AbortSignal,
): Promise<ServedModel> {
  const server =
    plan.server === undefined
      ? await serveEntrypoint(plan, run, signal)
      : await attachServer(plan.server, signal)
  const opened: { close(): Promise<void> }[] = [server]
  const close = async (): Promise<void> => {
    for (const part of opened) await part.close()
  }
  try {
    assertPlanFits(server, plan, run)
    await assertRowsFit(plan.dataset, plan.rows, server.rowCheck)
    const inFlight = forGroups(await inFlightOf(plan, server, signal), server, run)
    const gradesGroups = server.groupMinSize !== null
    const workersMayHelp =
      !gradesGroups &&
      plan.workers === undefined &&
      plan.queue === undefined &&
      plan.server === undefined &&
      server.kind === 'workflow' &&
      Math.min(availableParallelism(), inFlight.limit) > 1
    const thread = workersMayHelp ? await watchThread(server) : undefined
    let waitListener: PatientPolicyOptions['onWait']
    const asked = evaluatedPolicy(chosen.policy, {
      advise: policyAdvice(chosen),
      // A loop gets them with its order.
      params: server.kind === 'workflow' ? plan.params : {},
      // The code of a policy module is called by rollouts only, as before a run.
      answersTests: chosen.choice.kind === 'endpoint' || chosen.choice.kind === 'provider',
      price: plan.policy.workspace.prices.get(chosen.name),
      onWait: (pauseMs, status) => waitListener?.(pauseMs, status),
    })
    const driver = await openDriver(server, asked, chosen, plan, run)
    opened.push(driver)
    return {
      model: {
        name: chosen.name,
        policy: asked.policy,
        runner: explaining(driver.runner, server, thread),
      },
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

async function serveEntrypoint(
  { entrypoint, folder, environment, workflow: set, workers, queue }: EvalRunPlan,
  { location }: PlannedRun,
  signal: AbortSignal,
): Promise<EvaluatedServer> {
  const env = {
    ...environment,
    _OSMOSIS_ROLLOUT_ARTIFACT_ROOT: path.join(location, 'artifacts'),
  }
  return startServerProcess(
    {
      entrypoint,
      folder,
      env,
      set,
      ...(workers !== undefined && { workers }),
      ...(queue !== undefined && { redis: queue.redis }),
    },
    signal,
  )
}

/** @throws OsmosisError with code `invalid_config` for what does not apply to what an entrypoint exports */
function assertPlanFits(
  { kind, groupMinSize, hasGrader }: EvaluatedServer,
  { rollout, graderTimeoutSeconds, maxTurns, needsGrader }: EvalRunPlan,
  { n }: PlannedRun,
): void {
  if (!hasGrader && needsGrader) {
    throw invalid(
      `Nothing would score the rollouts of ${rollout}: export a class that extends Grader from the entrypoint, pass --eval-fn <file>:<export>, or pass --no-grader to run without.`,
    )
  }
  if (kind === 'workflow' && maxTurns !== null) {
    throw invalid(`--max-turns is for agent loops, and ${rollout} exports a workflow.`)
  }
  if (kind === 'agent-loop' && graderTimeoutSeconds !== null) {
    throw invalid(`grader_timeout_s is for workflows, and ${rollout} exports an agent loop.`)
  }
  if (groupMinSize !== null && n < groupMinSize) {
    throw invalid(
      `The grader of ${rollout} compares the attempts at a row and needs at least ${groupMinSize} of them (group.minSize of its config), and this run has ${n}: pass --n ${groupMinSize} or more.`,
    )
  }
}

async function openDriver(
  { kind, url, apiKey }: EvaluatedServer,
  { policy, recorded }: EvaluatedPolicy,
  chosen: ChosenPolicy,
  plan: EvalRunPlan,
  { location: runFolder }: PlannedRun,
): Promise<{ readonly runner: ItemRunner; close(): Promise<void> }> {
  const { agentTimeoutSeconds, graderTimeoutSeconds, maxTurns, params } = plan
  const server = { url, ...(apiKey !== undefined && { apiKey }) }
  if (kind === 'workflow') {
    const host = plan.server?.policyHost ?? plan.queue?.policyHost
    const controller = await createController({ policy, ...(host !== undefined && { host }) })
    hideKeys(controller.policyToken)
    const timeouts = { agentTimeoutSeconds, graderTimeoutSeconds }
    // A server elsewhere stores artifacts on its own machine, and may not reach more of this one than the policy.
    const place = plan.server === undefined ? { runFolder } : { fetchResult: true }
    const options = { server, recorded, ...place, ...timeouts }
    const runner = workflowRunner(namingEndpoint(controller, chosen), options)
    return { runner, close: () => controller.close() }
  }
  const trainer = await createTrainer({ policy })
  const runner = loopRunner(namingEndpoint(trainer, chosen), {
    server,
    ...(maxTurns !== null && { maxTurns }),
    completionParams: params,
    timeoutSeconds: agentTimeoutSeconds,
    recorded,
  })
  return { runner, close: () => trainer.close() }
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
  server: EvaluatedServer,
  signal: AbortSignal,
): Promise<InFlight> {
  const { kind, isConfigured } = server
  const slots = kind === 'agent-loop' ? null : await slotsOf(server, signal)
  // Without slots a queue has no worker yet.
  if (slots !== null && slots > 0 && slots < (wanted?.limit ?? Infinity)) {
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
  if (wanted !== null) return wanted
  const why = slots === 0 ? 'no worker of the queue has this code yet' : 'nothing sets a limit'
  return { limit: defaultInFlight, why }
}

/** Attempts that are graded together start together, even if some of them wait for a slot. */
function forGroups(
  inFlight: InFlight,
  { groupMinSize }: EvaluatedServer,
  { n: attempts }: PlannedRun,
): InFlight {
  if (groupMinSize === null || inFlight.limit >= attempts) return inFlight
  const why = `raised from ${inFlight.limit}, because the grader sees the ${attempts} attempts at a row together`
  return { limit: attempts, why }
}

/**
 * How many rollouts a server runs concurrently; null without a limit, or when it does not report one.
 *
 * @throws OsmosisError with code `protocol_error`, and the exit of the process when it is why there is no answer; the reason of `signal`
 */
async function slotsOf(server: EvaluatedServer, signal: AbortSignal): Promise<number | null> {
  const response = await askServer(server, '/health', signal).catch(async (error: unknown) => {
    throw await server.explain(error)
  })
  const health = healthResponseSchema.safeParse(await response.json().catch(() => undefined))
  return health.data?.concurrency.max_concurrent ?? null
}
