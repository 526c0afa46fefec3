import {
  createController,
  createTrainer,
  watchPolicy,
  type WatchedPolicy,
} from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'
import { healthResponseSchema } from '@osmosis/core/wire'
import {
  findMetadataProblems,
  invalidDataset,
  loopRunner,
  workflowRunner,
  type EvaluatedModel,
  type ItemRunner,
} from '@osmosis/eval'

import type { ChosenPolicy } from '../choose-policy.ts'
import type { ComparedModels } from './compared-models.ts'
import type { Redaction } from '../redaction.ts'
import type { EvalRunFlags } from './eval-commands.ts'
import type { EvaluationPlan } from './evaluation-plan.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

/** In flight at once when neither the flags nor the config nor the server set a limit. */
const defaultInFlight = 16

/** What {@link serveModels} needs to know. */
export interface ServeModelsOptions {
  readonly plan: EvaluationPlan
  readonly flags: EvalRunFlags
  /** The process of the entrypoint gets it, with what the plan adds to it. */
  readonly environment: NodeJS.ProcessEnv
  /** Of what that process prints. */
  readonly redaction: Redaction
  /** Gets everything that the process of the entrypoint prints. */
  readonly logFile: string
  /** Gives up starting. */
  readonly signal: AbortSignal
}

/** Models whose items can be run, by the entrypoint that is served for them. */
export interface ServedModels {
  readonly primary: EvaluatedModel
  /** Undefined without a baseline. */
  readonly baseline: EvaluatedModel | undefined
  readonly maxInFlight: number
  /** Aborted, with the reason, when the process of the entrypoint ends. */
  readonly died: AbortSignal
  /** Ends that process, then those who have heard from it to the last. */
  close(): Promise<void>
}

/**
 * Serves the entrypoint of a plan in a process of its own, and opens who drives it for each model:
 * a controller for a workflow, a trainer for an agent loop.
 *
 * @throws OsmosisError with code `invalid_entrypoint` when it cannot be served, `invalid_config` for
 * flags that are not for what it exports
 */
export async function serveModels(
  { primary, baseline }: ComparedModels,
  { plan, flags, environment, redaction, logFile, signal }: ServeModelsOptions,
): Promise<ServedModels> {
  const { entrypoint, folder, secrets } = plan
  const env = { ...environment, ...plan.env, ...secrets }
  const traces = flags.log === undefined ? {} : { traces: flags.log }
  const options = { entrypoint, folder, env, redaction, logFile, ...traces }
  const server = await startServerProcess(options, signal)
  const opened: { close(): Promise<void> }[] = [server]
  const close = async (): Promise<void> => {
    for (const part of opened) await part.close()
  }
  async function toModel(chosen: ChosenPolicy): Promise<EvaluatedModel> {
    const policy = watchPolicy(chosen.policy)
    const driver = await openDriver(server, policy, { plan, flags })
    opened.push(driver, { close: async () => chosen[Symbol.asyncDispose]() })
    return { name: chosen.name, policy, runner: explaining(driver.runner, server) }
  }
  try {
    assertFlagsFit(server, plan, flags)
    await assertRowsFit(server, plan)
    return {
      primary: await toModel(primary),
      baseline: baseline && (await toModel(baseline)),
      maxInFlight: await inFlightLimit(plan, server),
      died: server.died,
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

function assertFlagsFit(
  { kind }: ServerProcess,
  { rollout, graderTimeoutSeconds }: EvaluationPlan,
  { maxTurns, maxTokens, temperature }: EvalRunFlags,
): void {
  const flags = { '--max-turns': maxTurns, '--max-tokens': maxTokens, '--temperature': temperature }
  const [flag] = Object.entries(flags).find(([, value]) => value !== undefined) ?? []
  if (kind === 'workflow' && flag !== undefined) {
    throw invalid(`${flag} is for agent loops, and ${rollout} exports a workflow.`)
  }
  if (kind === 'agent-loop' && graderTimeoutSeconds !== null) {
    throw invalid(`grader_timeout_s is for workflows, and ${rollout} exports an agent loop.`)
  }
}

/** @throws OsmosisError with code `invalid_dataset` that names rows the workflow does not take */
async function assertRowsFit(
  { metadataCheck }: ServerProcess,
  { dataset, rows }: EvaluationPlan,
): Promise<void> {
  const problems =
    metadataCheck === undefined ? [] : await findMetadataProblems(rows, metadataCheck)
  if (problems.length > 0) throw invalidDataset(dataset, problems)
}

async function openDriver(
  server: ServerProcess,
  policy: WatchedPolicy,
  { plan, flags }: Pick<ServeModelsOptions, 'plan' | 'flags'>,
): Promise<{ readonly runner: ItemRunner; close(): Promise<void> }> {
  const { agentTimeoutSeconds, graderTimeoutSeconds } = plan
  if (server.kind === 'workflow') {
    const controller = await createController({ policy })
    const timeouts = { agentTimeoutSeconds, graderTimeoutSeconds }
    const runner = workflowRunner(controller, { server, ...timeouts })
    return { runner, close: () => controller.close() }
  }
  const trainer = await createTrainer({ policy })
  const { maxTurns, maxTokens, temperature } = flags
  const runner = loopRunner(trainer, {
    server,
    ...(maxTurns === undefined ? {} : { maxTurns }),
    completionParams: {
      ...(temperature === undefined ? {} : { temperature }),
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    },
    timeoutSeconds: agentTimeoutSeconds,
  })
  return { runner, close: () => trainer.close() }
}

/** A connection that broke because the process has ended says so. */
function explaining(runner: ItemRunner, server: ServerProcess): ItemRunner {
  return {
    async run(item, options) {
      try {
        return await runner.run(item, options)
      } catch (error) {
        throw await server.explain(error)
      }
    },
  }
}

/** More rollouts than a server has slots would only wait there, with their deadline running. */
async function inFlightLimit(
  { maxInFlight: wanted }: EvaluationPlan,
  { kind, url }: ServerProcess,
): Promise<number> {
  if (kind === 'agent-loop') return wanted ?? defaultInFlight
  const response = await fetch(`${url}/health`)
  const { concurrency } = healthResponseSchema.parse(await response.json())
  const slots = concurrency.max_concurrent
  if (wanted === null) return slots ?? defaultInFlight
  return Math.max(1, Math.min(wanted, slots ?? wanted))
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
