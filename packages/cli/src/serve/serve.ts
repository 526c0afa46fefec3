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
      'file with the keys of which callers must present one, a line each; read again on SIGHUP',
    )
    .option('--no-auth', 'ask for no key, also on an address that other machines reach')
    .optionsGroup(groups.inputs)
    .option('--no-validate', 'do not check the agent loop before serving it')
    .optionsGroup(groups.output)
    .option('--log <folder>', 'keep a trace of every rollout of the agent loop there')
  const logged = addLogFlags(server)
    .optionsGroup(groups.output)
    .option(
      '--outbox <folder>',
      'keep rollouts there from their acceptance until they are told in full, so that the next start goes on from there',
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
      'write no document of what a rollout said (default: one each, below $_OSMOSIS_ROLLOUT_ARTIFACT_ROOT or ~/.osmosis)',
    )
    .optionsGroup(groups.server)
    .option(
      '--run',
      'serve POST /run and POST /flush as well, for trainers that wait for the answer, as Miles does',
    )
    .option(
      '--reward <rule>',
      'reward of a rollout of --run with several samples: mean, sum, or the id of a sample (default: it must have one sample)',
      rewardRule,
    )
    .option(
      '--group-column <name>',
      'column of the rows of --run that names their group (default: they belong to none)',
    )
    .option(
      '--group-size <n>',
      'how many attempts a group of --group-column has, for graders that see them all (default: any number)',
      countFrom(1),
    )
  const reachable = addEgressFlags(logged, 'model calls and callbacks')
    .optionsGroup(groups.platform)
    .option(
      '--register',
      'tell the platform ($OSMOSIS_PLATFORM_URL, https://platform.osmosis.ai) where the agent loop is; needs a key and a login ($OSMOSIS_TOKEN, else ~/.config/osmosis/credentials.json)',
    )
    .option(
      '--public-host <host>',
      'name or address under which the platform reaches the server (default: --host)',
    )
    .option(
      '--public-port <port>',
      'port on which it does (default: the one that is listened on)',
      portNumber,
    )
  const workers = addWorkerFlags(reachable, 'server')
  return addQueueFlags(
    workers,
    'leave the rollouts of a workflow to osmosis worker, over this Redis',
  )
    .option(
      '--max-rollouts <n>',
      'most rollouts of the queue that run at the same time, on all workers together, or none for no limit (default: as a server of the queue said last)',
      countOrNone,
    )
    .option(
      '--max-queue-depth <n>',
      'answer 429 while so many rollouts wait in the queue (default: any number may)',
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
