import path from 'node:path'
import { styleText } from 'node:util'

import { createController, type Controller } from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'
import { healthResponseSchema } from '@osmosis/core/wire'
import {
  createRunFolder,
  defaultOutputRoot,
  formatReport,
  generateRunName,
  readDataset,
  readEvalConfig,
  runEvaluation,
  selectRows,
  type EvalConfig,
  type EvaluationResult,
  type ItemRunner,
  type RolloutSender,
  workflowRunner,
} from '@osmosis/eval'

import { choosePolicy, type PolicyFlags } from '../choose-policy.ts'
import { closing } from '../closing.ts'
import { abortOnInterrupt, interruptedExitCode } from './interrupt.ts'
import { ProgressLine } from './progress-line.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

/** Flags of `osmosis eval run`. */
export interface EvalRunFlags extends PolicyFlags {
  limit?: number
  rows?: string
  maxInFlight?: number
  name?: string
  output?: string
}

/** In flight at once when neither the flags nor the config nor the server set a limit. */
const defaultInFlight = 16

/**
 * Runs an evaluation: starts the rollout server as a process of its own, drives all rows through
 * it over HTTP, and prints the report. Resolves with the exit code: 0 when every item has ended,
 * 1 when not, 130 after Ctrl-C.
 */
export async function evalRunCommand(configFile: string, flags: EvalRunFlags): Promise<number> {
  const environment = process.env // oxlint-disable-line node/no-process-env
  const config = await readEvalConfig(configFile)
  assertSecrets(config, environment)
  const { policy, name: model } = await choosePolicy(flags, environment, {
    policy: config.policy,
    model: config.experiment.modelPath,
    elsewhere: ', or add a [policy] section to the config',
  })
  const dataset = await readDataset(config.experiment.datasetFile)
  const rows = selectRows(dataset, {
    limit: flags.limit ?? config.evaluation.limit,
    ...(flags.rows === undefined ? {} : { rows: flags.rows }),
  })
  const { experiment, evaluation } = config
  const runFolder = await createRunFolder({
    outputRoot: flags.output ?? defaultOutputRoot(config.workspaceRoot),
    runName: flags.name ?? generateRunName(configFile, { experiment, evaluation, model }),
  })

  const interrupt = abortOnInterrupt()
  try {
    const serverOptions = {
      entrypointFile: experiment.entrypointFile,
      folder: experiment.rolloutFolder,
      env: config.env,
      logFile: path.join(runFolder.location, 'logs.txt'),
    }
    const progress = new ProgressLine(process.stderr, evaluation.passThreshold)
    const evaluate = async (
      controller: Controller,
      server: ServerProcess,
    ): Promise<EvaluationResult> =>
      runEvaluation({
        names: {
          run: path.basename(runFolder.location),
          rollout: experiment.rollout,
          dataset: experiment.dataset,
        },
        rows,
        model: { name: model, runner: toRunner(controller, server, evaluation) },
        n: evaluation.n,
        maxInFlight: await inFlightLimit(flags, config, server),
        passThreshold: evaluation.passThreshold,
        signal: AbortSignal.any([interrupt.signal, server.died]),
        sink: runFolder,
        onProgress: (update) => progress.update(update),
      })
    // The controller is closed last: the server reports to it until it ends.
    const result = await closing(await createController({ policy }), async (controller) =>
      closing(await startServerProcess(serverOptions, interrupt.signal), async (server) =>
        evaluate(controller, server),
      ),
    )
    progress.end()
    process.stdout.write(`\n${formatReport(result, { style: styleText })}\n`)
    if (interrupt.signal.aborted) return interruptedExitCode
    if (result.incompleteReason === null) return 0
    process.stderr.write(`error: The run is incomplete. ${result.incompleteReason}\n`)
    return 1
  } catch (error) {
    if (interrupt.signal.aborted && error === interrupt.signal.reason) return interruptedExitCode
    throw error
  } finally {
    interrupt.release()
  }
}

function toRunner(
  controller: Controller,
  server: ServerProcess,
  { agentWorkflowTimeoutS, graderTimeoutS }: EvalConfig['evaluation'],
): ItemRunner {
  const sender: RolloutSender = {
    run: async (order, options) => {
      try {
        return await controller.run(order, options)
      } catch (error) {
        throw await server.explain(error)
      }
    },
  }
  return workflowRunner(sender, {
    server,
    agentTimeoutSeconds: agentWorkflowTimeoutS,
    graderTimeoutSeconds: graderTimeoutS,
  })
}

function assertSecrets({ requiredSecrets }: EvalConfig, environment: NodeJS.ProcessEnv): void {
  const missing = requiredSecrets.filter((name) => !environment[name])
  if (missing.length === 0) return
  throw new OsmosisError(
    'invalid_config',
    `The rollout needs secrets that are not set in the environment: ${missing.join(', ')}.`,
  )
}

/** More rollouts than the server has slots would only wait there, with their deadline running. */
async function inFlightLimit(
  { maxInFlight }: EvalRunFlags,
  { evaluation }: EvalConfig,
  server: ServerProcess,
): Promise<number> {
  const response = await fetch(`${server.url}/health`)
  const { concurrency } = healthResponseSchema.parse(await response.json())
  const wanted = maxInFlight ?? evaluation.batchSize
  const slots = concurrency.max_concurrent
  if (wanted === null) return slots ?? defaultInFlight
  return Math.max(1, Math.min(wanted, slots ?? wanted))
}
