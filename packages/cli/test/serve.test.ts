import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

import { startPolicyServer } from '@osmosis/testing'
import { describe, expect, it, onTestFinished } from 'vitest'

import { FakeController, post } from '../../../test/kit/index.ts'
import { inWorkspace, run as osmosis, sendRow, start, type StartedCommand } from './in-process.ts'
import { startOsmosis, temporaryFolder, workspace, type RunningCommand } from './osmosis.ts'

inWorkspace()

const echo = 'rollouts/echo/main.ts'

describe('osmosis serve', () => {
  it('says what it serves and where, and ends cleanly on SIGTERM', async () => {
    const command = startOsmosis(['serve', echo, '--port', '0'])
    const [, url = ''] = await command.printed(/Listening on (\S+)/)
    const health = await fetch(`${url}/health`)
    expect(await health.json()).toMatchObject({
      status: 'ok',
      concurrency: { max_concurrent: 4, queued: 0, running: 0 },
      undelivered: 0,
    })
    command.child.kill('SIGTERM')
    expect((await command.finished).stdout).toBe(
      `Serving EchoWorkflow of ${echo} (EchoGrader)\nListening on ${url} (open, no key required)\n`,
    )
    expect((await command.finished).code).toBe(0)
  })

  it.each([
    ['is ended', start, async (command: StartedCommand) => command.end()],
    [
      'loses its terminal',
      startOsmosis,
      async (command: RunningCommand) => {
        for (const signal of ['SIGHUP', 'SIGHUP'] as const) command.child.kill(signal)
        return command.finished
      },
    ],
  ] as const)(
    'ends rollouts that still run at the end of --drain-timeout when it %s',
    { tags: 'slow' },
    async (_, begin, end) => {
      await using controller = await new FakeController().start()
      controller.hanging = true
      const args = ['serve', 'rollouts/calling/main.ts', '--port', '0', '--drain-timeout', '0.1']
      const command = begin(args)
      const [, url = ''] = await command.printed(/Listening on (\S+)/)
      await post(`${url}/rollout`, controller.rolloutBody())
      await controller.until(() => controller.events.includes('policy call'))
      const ended = end(command as StartedCommand & RunningCommand)

      expect(await controller.bodies()).toMatchObject([
        { status: 'failure', err_message: 'rollout server shut down' },
        { status: 'failure', err_message: 'rollout server shut down' },
      ])
      expect((await ended).code).toBe(0)
    },
  )

  it('lets rollouts run to their end within --drain-timeout', async () => {
    await using controller = await new FakeController().start()
    const answer = Promise.withResolvers<string>()
    await using policy = await startPolicyServer(() => answer.promise)
    const args = ['serve', 'rollouts/calling/main.ts', '--port', '0', '--drain-timeout', '60']
    const command = start(args)
    const [, url = ''] = await command.printed(/Listening on (\S+)/)
    const send = async (): Promise<number> => {
      const body = controller.rolloutBody({ chat_completions_url: policy.url })
      return (await post(`${url}/rollout`, body)).status
    }
    expect(await send()).toBe(202)
    await policy.waitForRequest(0)
    const ended = command.end()
    // A known rollout is accepted again until the server drains.
    await expect.poll(send).toBe(503)
    answer.resolve('yes')

    const success = { status: 'success' }
    expect(await controller.bodies()).toMatchObject([success, success])
    expect((await ended).code).toBe(0)
  })

  it('asks for the key of the flag, else of the environment', async () => {
    for (const [args, env] of [
      [['--api-key', 'k1'], {}],
      [[], { OSMOSIS_ROLLOUT_SERVER_API_KEY: 'k1' }],
    ] as const) {
      const command = start(['serve', echo, '--port', '0', ...args], env)
      const [, url = ''] = await command.printed(/Listening on (\S+) \(with a bearer key\)/)
      const status = async (key?: string): Promise<number> =>
        (
          await fetch(`${url}/rollout/x/status`, {
            headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
          })
        ).status
      expect([await status(), await status('k2'), await status('k1')]).toEqual([401, 401, 200])
      await command.end()
    }
  })

  it('takes the port from the environment when no flag says otherwise', async () => {
    const port = String(await usedPort())
    for (const env of [
      { _OSMOSIS_ROLLOUT_PORT: port, ROLLOUT_PORT: '0' },
      { _OSMOSIS_ROLLOUT_PORT: '', ROLLOUT_PORT: port },
    ]) {
      const refused = start(['serve', echo], env)
      const [said] = await refused.printed(/Listening on|Port \d+ of 127\.0\.0\.1 is used/)
      expect(said).toBe(`Port ${port} of 127.0.0.1 is used`)
      const command = start(['serve', echo, '--port', '0'], env)
      await command.printed(/Listening on/)
      await command.end()
    }
  })

  it('takes from the nearest .env, or the file that is named, what the environment lacks', async () => {
    const folder = temporaryFolder()
    const below = path.join(folder, 'rollouts')
    mkdirSync(below)
    const variables = '_OSMOSIS_ROLLOUT_PORT=0\nOSMOSIS_ROLLOUT_SERVER_API_KEY=key-of-file\n'
    writeFileSync(path.join(folder, '.env'), variables)
    writeFileSync(path.join(folder, 'other.env'), variables.replace('key-of-file', 'another-key'))
    for (const [env, key] of [
      [{}, 'key-of-file'],
      [{ OSMOSIS_ENV_FILE: '../other.env' }, 'another-key'],
      [{ OSMOSIS_ROLLOUT_SERVER_API_KEY: 'key-of-process' }, 'key-of-process'],
    ] as const) {
      const command = start(['serve', path.join(workspace, echo)], env, below)
      const [, url = ''] = await command.printed(/Listening on (\S+) \(with a bearer key\)/)
      const headers = { authorization: `Bearer ${key}` }
      expect((await fetch(`${url}/rollout/x/status`, { headers })).status).toBe(200)
      await command.end()
    }
  })

  it('says that the file of variables which is named is not there', async () => {
    const { code, stderr } = await osmosis(['serve', echo], { OSMOSIS_ENV_FILE: 'nowhere.env' })
    expect([code, stderr]).toEqual([2, 'error: The environment file nowhere.env does not exist.\n'])
  })

  it('writes a trajectory document of each rollout, except with --no-trajectories', async () => {
    for (const [flags, documents] of [
      [[], 1],
      [['--no-trajectories'], 0],
    ] as const) {
      const root = temporaryFolder()
      const command = start(['serve', echo, '--port', '0', '--no-auth', ...flags], {
        _OSMOSIS_ROLLOUT_ARTIFACT_ROOT: root,
      })
      const [, url = ''] = await command.printed(/Listening on (\S+)/)
      expect((await sendRow(url)).code).toBe(0)
      expect(globSync('**/trajectory.json', { cwd: root })).toHaveLength(documents)
      await command.end()
    }
  })

  it('listens on other addresses than loopback only with a key, or with --no-auth', async () => {
    const refused = await osmosis(['serve', echo, '--port', '0', '--host', '0.0.0.0'])
    expect(refused.code).toBe(2)
    expect(refused.stderr).toMatch(/^error: .*0\.0\.0\.0.*key/)
    expect(refused.stderr).toMatch(/--api-key-file.*--no-auth/)
    const open = start(['serve', echo, '--port', '0', '--host', '0.0.0.0', '--no-auth'])
    await open.printed(/Listening on/)
  })
})

describe('osmosis serve refuses', () => {
  const endsWith = async (expected: number, args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await osmosis(['serve', ...args])
    expect([code, stdout]).toEqual([expected, ''])
    return stderr
  }
  const fails = async (...args: string[]): Promise<string> => endsWith(2, args)

  it('flags about POST /run where it is not served', async () => {
    const about =
      'error: --reward, --group-column and --group-size only apply to POST /run: pass --run as well.\n'
    expect(await fails(echo, '--reward', 'mean')).toBe(about)
    expect(await fails(echo, '--group-column', 'id')).toBe(about)
    expect(await fails(echo, '--run', '--group-size', '8')).toBe(
      'error: --group-size needs --group-column, which names the groups.\n',
    )
    expect(await fails('rollouts/agent-loops/adder.ts', '--run')).toBe(
      'error: --run is for workflows, and rollouts/agent-loops/adder.ts exports an agent loop.\n',
    )
    expect(await fails(echo, '--run', '--host', '0.0.0.0', '--port', '0')).toMatch(
      /^error: Refusing to listen on 0\.0\.0\.0 without an API key/,
    )
  })

  it('a file that is not there', async () => {
    expect(await fails('nowhere.ts')).toBe(
      `error: The entrypoint file ${path.join(workspace, 'nowhere.ts')} does not exist.\n`,
    )
  })

  it('a file that is not TypeScript', async () => {
    expect(await fails('rollouts/broken/notes.md')).toBe(
      'error: The entrypoint rollouts/broken/notes.md is not a TypeScript or JavaScript module: its name should end in .ts, .mts, .cts, .js, .mjs or .cjs.\n',
    )
  })

  it('a module that cannot be loaded, and shows where', async () => {
    expect(await fails('rollouts/broken/throws.ts')).toMatch(
      /^error: Cannot load the entrypoint rollouts\/broken\/throws\.ts:\nError: this module cannot be loaded\n.*throws\.ts:1/,
    )
  })

  it(
    'a module with a syntax error, with its location and without frames of the compiler',
    { tags: 'slow' },
    async () => {
      const file = path.join(temporaryFolder(), 'main.ts')
      writeFileSync(file, 'export class Loop {\n  run( {\n')
      const { code, stderr } = await startOsmosis(['serve', file]).finished
      expect(code).toBe(2)
      expect(stderr).toContain(`${file}:3:0: ERROR: `)
      expect(stderr).not.toMatch(/^ +at /m)
    },
  )

  it('a port in use', async () => {
    const port = await usedPort()
    expect(await endsWith(1, [echo, '--port', String(port)])).toBe(
      `error: Port ${port} of 127.0.0.1 is used by another program. Stop it, or choose another port; 0 picks a free one.\n`,
    )
  })

  it('a flag it does not know, with the one that was meant', async () => {
    const { code, stderr } = await osmosis(['serve', echo, '--prot', '8000'])
    expect(code).toBe(2)
    expect(stderr).toContain("unknown option '--prot'")
    expect(stderr).toContain('Did you mean --port?')
  })
})

it('says its version', async () => {
  const manifest = readFileSync(path.join(import.meta.dirname, '../package.json'), 'utf8')
  const { version } = JSON.parse(manifest) as { version: string }
  expect(await osmosis(['--version'])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
})

it('shows its commands without loading servers or frameworks', async () => {
  const program = `
    import { writeSync } from 'node:fs'
    import { registerHooks } from 'node:module'
    registerHooks({
      load(url, context, next) {
        writeSync(2, url + '\\n')
        return next(url, context)
      },
    })`
  const file = path.join(temporaryFolder(), 'say-what-is-loaded.mjs')
  writeFileSync(file, program)
  const command = startOsmosis(['--help'], { NODE_OPTIONS: `--import=${pathToFileURL(file).href}` })
  const { code, stdout, stderr } = await command.finished
  expect(code).toBe(0)
  expect(stdout).toContain('serve [options] [entrypoint]')
  expect(stdout).toContain('eval')
  // Of `server`, only what commands need before they have begun.
  const packages = stderr.matchAll(/(?:.*\/node_modules\/|\/packages\/)((?:@[^/]+\/)?[^/]+)\//g)
  expect([...new Set([...packages].map(([, name = '']) => name))].toSorted()).toEqual([
    '@commander-js/extra-typings',
    'cli',
    'commander',
    'core',
    'create',
    'eventsource-parser',
    'lru-cache',
    'protocol',
    'server',
    'zod',
  ])
})

/** A port on which another program listens. */
async function usedPort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  onTestFinished(() => {
    server.close()
  })
  return (server.address() as AddressInfo).port
}
