import { readFileSync } from 'node:fs'

import { Command } from 'commander'

import { addAgentLoopCommands, addEvalLoopCommand } from './agent-loop/agent-loop-commands.ts'
import { endpointUrl } from './agent-loop/endpoint-url.ts'
import { agentLoopModule } from './agent-loop/loop-options.ts'
import type { EvalRunFlags } from './eval-run/eval-run-command.ts'
import type { ServeFlags } from './serve/serve-flags.ts'
import { portNumber, wholeNumber } from './whole-number.ts'

/**
 * The command line. Commands load their code when they are called, so that `--help` does not wait
 * for servers and frameworks.
 */
export function createProgram(setExitCode: (code: number) => void): Command {
  const program = new Command('osmosis')
    .description('Train and evaluate agents by reinforcement learning.')
    .version(packageVersion())
    .exitOverride()
    .showHelpAfterError('(osmosis --help shows what can be said)')

  program
    .command('serve')
    .description('serve the rollouts of an entrypoint, or of an agent loop, over HTTP')
    .argument('[entrypoint]', 'a TypeScript or JavaScript module that exports one AgentWorkflow')
    .option('-m, --module <module>', agentLoopModule)
    .option(
      '--port <port>',
      'port to listen on; 0 takes a free one (default: $_OSMOSIS_ROLLOUT_PORT, $ROLLOUT_PORT, 8000; 9000 for an agent loop)',
      portNumber,
    )
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option(
      '--api-key <key>',
      'bearer key that callers must present (default: $OSMOSIS_ROLLOUT_SERVER_API_KEY)',
    )
    .option('--no-auth', 'ask for no key, also on an address that other machines reach')
    .option('--no-validate', 'do not check the agent loop before serving it')
    .option('--log <folder>', 'keep a trace of every rollout of the agent loop there')
    .option(
      '--outbox <folder>',
      'keep results there until they are acknowledged, so that the next start delivers what this one cannot',
    )
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
      wholeNumber,
    )
    .action(async (entrypoint: string | undefined, flags: ServeFlags) => {
      const { serveCommand } = await import('./serve/serve-command.ts')
      await serveCommand(entrypoint, flags)
    })

  addAgentLoopCommands(program, setExitCode)

  const evals = program.command('eval').description('evaluate rollouts')
  evals
    .command('run')
    .description('run an evaluation on this machine')
    .argument('<config>', 'an eval config, e.g. configs/eval/my-rollout.toml')
    .option('--limit <rows>', 'take only the first rows of the dataset', wholeNumber)
    .option('--rows <list>', 'take these rows, counted from 0, e.g. 0-4,7')
    .option('--policy <module>', 'let a module that exports a policy answer the model calls')
    .option(
      '--base-url <url>',
      'let an OpenAI-compatible endpoint answer the model calls',
      endpointUrl,
    )
    .option(
      '--model <name>',
      'model to ask for at the endpoint (default: model_path of the config)',
    )
    .option(
      '--api-key-env <name>',
      'environment variable with the key of the endpoint (default: no key is sent)',
    )
    .option(
      '--max-in-flight <rollouts>',
      'most rollouts at the same time (default: batch_size of the config)',
      wholeNumber,
    )
    .option(
      '--name <name>',
      'name of the run (default: made from the config, the time and the inputs)',
    )
    .option(
      '--output <folder>',
      'folder that gets a folder for the run (default: .osmosis/evals in the workspace)',
    )
    .action(async (config: string, flags: EvalRunFlags) => {
      const { evalRunCommand } = await import('./eval-run/eval-run-command.ts')
      setExitCode(await evalRunCommand(config, flags))
    })
  addEvalLoopCommand(evals, setExitCode)

  return program
}

function packageVersion(): string {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}
