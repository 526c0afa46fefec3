import { execFile } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { main } from '@osmosis/create'
import { vi } from 'vitest'

import { root } from '../examples/command.ts'
import { temporaryFolder } from '../kit/index.ts'
import { commandLines, takesFlag } from '../repository/command-line.ts'
import { linkPackages, type Block } from '../repository/documents.ts'
import { runCommandsHere } from './commands-here.ts'

/** The nightly tests run every command in a process of its own. */
const everythingRuns = Boolean(process.env['OSMOSIS_TESTS_ALL_RUNS'])

/** Somebody who does what a document says, in a folder where everything is installed already. */
export interface Reader {
  readonly folder: string
  /** Runs lines of bash, and resolves with everything that they printed. */
  readonly bash: (
    script: string,
    place: string,
    env?: Readonly<Record<string, string>>,
  ) => Promise<string>
}

/**
 * A reader with an empty folder.
 *
 * @param commands - where the `osmosis` commands of the lines run, but for those that serve: in this process, which takes a
 * third of the time, or each in one of its own, as they do for users
 */
export async function startReader(commands: 'here' | 'processes' = 'here'): Promise<Reader> {
  const folder = await temporaryFolder()
  linkPackages(folder)
  const programs = writePrograms(folder)
  const inProcess = commands === 'processes' || everythingRuns ? '' : await runCommandsHere()
  return {
    folder,
    async bash(script, cwd, more = {}) {
      const env = {
        ...process.env,
        ...more,
        PATH: `${programs}:${process.env['PATH']}`,
        COMMANDS_PORT: inProcess,
      }
      // Bash takes a socket as its input for a connection from elsewhere, and would read its settings.
      const words = ['--norc', '-euxo', 'pipefail', '-c', script]
      const child = promisify(execFile)('bash', words, { cwd, env })
      child.child.stdin?.end()
      const { stdout, stderr } = await child
      return stdout + stderr
    },
  }
}

/**
 * What `npm create` makes, for pages that begin behind it; those that show the command run it.
 *
 * @returns its folder
 */
export async function makeWorkspace({ folder }: Reader): Promise<string> {
  const place = path.join(folder, 'my-agent')
  const advice = vi.spyOn(process.stderr, 'write').mockImplementation(() => true)
  const flags = ['--framework', 'openai-agents', '--yes', '--no-install', '--no-git']
  const code = await main([place, ...flags], {}).finally(() => advice.mockRestore())
  if (code !== 0) throw new Error(`the workspace was not made: ${code}`)
  symlinkSync(path.join(folder, 'node_modules'), path.join(place, 'node_modules'))
  return place
}

/** The commands of the blocks, those that are wanted, as they are run without a keyboard. */
export function commandsOf(
  blocks: readonly Block[],
  isWanted: (command: string) => boolean = () => true,
): string[] {
  return blocks
    .filter(({ language }) => language === 'bash' || language === 'sh')
    .flatMap(({ text }) => commandLines(text))
    .filter(isWanted)
    .map((command) => agreed(command.replace(/^npx -y pnpm@12 exec /, 'npx ')))
    .map((command) => command.replace('=…', '=key-1'))
    .map(untilItWaits)
}

/** Writes the files that the blocks name. */
export function writeFiles(blocks: readonly Block[], place: string): void {
  for (const { file, text } of blocks) {
    if (file === undefined) continue
    mkdirSync(path.dirname(path.join(place, file)), { recursive: true })
    writeFileSync(path.join(place, file), text)
  }
}

/** Nobody can be asked. */
function agreed(command: string): string {
  const words = command.replace(/^npx /, '').split(' ')
  if (words[0] !== 'osmosis' || words.includes('--yes')) return command
  return takesFlag(words.slice(1), '--yes') ? `${command} --yes` : command
}

/** What serves gets a port that is free. What continues until Ctrl-C gets it when it waits. */
function untilItWaits(command: string): string {
  if (!/osmosis (?:serve|eval view(?!.*--export))/.test(command)) return command
  return `until_it_says http:// TERM ${command.replace(/ --port \d+/, '')} --port 0`
}

/** A folder with package managers that find everything installed already, from the sources here. */
function writePrograms(folder: string): string {
  const bin = path.join(folder, 'bin')
  const create = path.join(root, 'packages/create/src/bin.ts')
  const write = (name: string, lines: readonly string[]): void =>
    writeFileSync(path.join(bin, name), ['#!/usr/bin/env bash', ...lines].join('\n'), {
      mode: 0o755,
    })
  mkdirSync(bin)
  write('npx', [
    'export npm_config_user_agent=npm',
    '[ "$1" != osmosis ] || exec "$@"',
    `exec ${path.join(root, 'node_modules/.bin')}/"$@"`,
  ])
  write('osmosis', [
    `[ -n "$COMMANDS_PORT" ] || exec ${path.join(root, 'node_modules/.bin/osmosis')} "$@"`,
    // commands-here.ts reads this, and answers.
    'exec 3<> /dev/tcp/127.0.0.1/$COMMANDS_PORT',
    `{ printf '%s\\0' "$(cat)" "$PWD" $# "$@"; env -0; printf '\\0'; } >&3`,
    'for part in code out err; do IFS= read -r -d "" -u 3 $part; done',
    `printf %s "$out"; printf %s "$err" >&2; exit "$code"`,
  ])
  write('xdg-open', ['exit 0'])
  const start = (line: string, words: string): string[] => [
    'printed=$(mktemp)',
    `${line} > "$printed" 2>&1 & pid=$!`,
    `until grep -q ${words} "$printed" || ! kill -0 $pid; do sleep 0.1; done`,
  ]
  // A job of a shell without job control ignores SIGINT, unless it is told otherwise.
  write('until_it_says', [
    'export COMMANDS_PORT=; set -m; says=$1; signal=$2; shift 2',
    ...start('"$@"', '"$says"'),
    'grep -q "$says" "$printed" || { cat "$printed"; exit 1; }',
    'kill -$signal $pid; wait $pid || true; cat "$printed"',
  ])
  // Runs the rest of its line with the address of a server instead of the one that is written there.
  write('with_server', [
    'export OSMOSIS_ROLLOUT_SERVER_API_KEY=key-1',
    ...start('COMMANDS_PORT= osmosis serve "$1" --port 0', 'http://'),
    'url=$(grep -o "http://[0-9.:]*" "$printed" | head -1); shift',
    'code=0; "${@//http:\\/\\/127.0.0.1:8123/$url}" || code=$?',
    'kill -TERM $pid; wait $pid || true; exit $code',
  ])
  write('npm', [
    'case $1 in',
    'install) ;;',
    'create) shift 2; folder=$1; shift 2',
    `"${process.execPath}" ${create} "$folder" "$@" --no-install --no-git`,
    `ln -s ${path.join(folder, 'node_modules')} "$folder/node_modules" ;;`,
    'run) exec node --run "$2" ;;',
    '*) exec node --run "$1" ;;',
    'esac',
  ])
  return bin
}
