import { InvalidArgumentError, type Command } from '@commander-js/extra-typings'
import {
  addEgressFlags,
  addLogFlags,
  addQueueFlags,
  addWorkerFlags,
  countFrom,
  example,
  groups,
  portNumber,
  type FlagsOf,
} from '../command/flags.ts'
import type { RewardRule } from '@osmosis/runtime'

function declareServe(program: Command) {
  const server = program
    .command('serve')
    .description('serve the rollouts of a workflow, or of an agent loop, over HTTP')
    .argument(
      '[entrypoint]',
      'a TypeScript or JavaScript module that exports one AgentWorkflow, or one agent loop',
    )
    .optionsGroup(groups.inputs)
    .option('-m, --module <module>', 'the entrypoint, <file>[:<export>], e.g. server.ts:agentLoop')
    .optionsGroup(groups.server)
    .option(
      '--port <port>',
      'port to listen on; 0 takes a free one (default: $_OSMOSIS_ROLLOUT_PORT, $ROLLOUT_PORT, 8000; 9000 for an agent loop)',
      portNumber,
    )
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .optionsGroup(groups.access)
    .option(
      '--api-key <key>',
      'bearer key that callers must present (default: $OSMOSIS_ROLLOUT_SERVER_API_KEY)',
    )
    .option(
      '--api-key-file <file>',
      'file with the accepted bearer keys, one per line; read again on SIGHUP',
    )
    .option('--no-auth', 'require no key, even on an address that other machines can reach')
    .optionsGroup(groups.inputs)
    .option('--no-validate', 'do not check the agent loop before serving it')
    .optionsGroup(groups.output)
    .option('--log <folder>', 'write a trace of every rollout of the agent loop to this folder')
  const logged = addLogFlags(server)
    .optionsGroup(groups.output)
    .option(
      '--outbox <folder>',
      'store accepted rollouts there until their results are delivered, so that the next start resumes them',
    )
    .optionsGroup(groups.server)
    .option(
      '--admission-status <status>',
      'answer an accepted rollout of a workflow with 200, for older trainers, or 202 (default: 202)',
      admissionStatus,
    )
    .optionsGroup(groups.output)
    .option(
      '--no-trajectories',
      'do not write trajectory documents (default: one for each rollout, below $_OSMOSIS_ROLLOUT_ARTIFACT_ROOT or ~/.osmosis)',
    )
    .optionsGroup(groups.server)
    .option(
      '--run',
      'also serve POST /run and POST /flush, for trainers that wait for the response, such as Miles',
    )
    .option(
      '--reward <rule>',
      'reward of a rollout of --run with several samples: mean, sum, or the id of a sample (default: it must have one sample)',
      rewardRule,
    )
    .option(
      '--group-column <name>',
      'column of the rows of --run that names their group (default: no groups)',
    )
    .option(
      '--group-size <n>',
      'number of attempts in a group of --group-column, for graders that compare all of them (default: any number)',
      countFrom(1),
    )
  const reachable = addEgressFlags(logged, 'model calls and callbacks')
    .optionsGroup(groups.platform)
    .option(
      '--register',
      'register the address of the agent loop with the platform ($OSMOSIS_PLATFORM_URL, https://platform.osmosis.ai); needs a key and a login ($OSMOSIS_TOKEN, else ~/.config/osmosis/credentials.json)',
    )
    .option(
      '--public-host <host>',
      'name or address under which the platform reaches the server (default: --host)',
    )
    .option(
      '--public-port <port>',
      'port under which the platform reaches the server (default: the port it listens on)',
      portNumber,
    )
  const workers = addWorkerFlags(reachable, 'server')
  return addQueueFlags(
    workers,
    'queue the rollouts of a workflow in this Redis, for osmosis worker to run',
  )
    .option(
      '--max-rollouts <n>',
      'maximum number of concurrent rollouts of the queue, on all workers together, or none for no limit (default: the last value that a server of the queue set)',
      countOrNone,
    )
    .option(
      '--max-queue-depth <n>',
      'answer 429 while this many rollouts wait in the queue (default: no limit)',
      countFrom(1),
    )
    .addHelpText('after', example('osmosis serve rollouts/price-check/main.ts --port 8000'))
}

/** Flags of `osmosis serve`. */
export type ServeFlags = FlagsOf<typeof declareServe>

/** Adds `serve`. */
export function addServeCommand(program: Command): void {
  declareServe(program).action(async (entrypoint, flags) => {
    const { serveCommand } = await import('./start-server.ts')
    await serveCommand(entrypoint, flags)
  })
}

/** The value of `--reward`. */
function rewardRule(value: string): RewardRule {
  if (value === 'single' || value === 'mean' || value === 'sum') return value
  return { sampleId: value }
}

function countOrNone(value: string): number | 'none' {
  // Commander takes null for a value that is missing.
  return value === 'none' ? value : countFrom(1)(value)
}

function admissionStatus(value: string): 200 | 202 {
  if (value === '200') return 200
  if (value === '202') return 202
  throw new InvalidArgumentError('It must be 200 or 202.')
}
