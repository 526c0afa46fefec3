import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'

import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { onlyIf, temporaryFolder } from '../../../test/kit/index.ts'
import { run } from './in-process.ts'
import { endpoint, refuse } from './model-endpoint.ts'
import { bin } from './osmosis.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

interface Examined {
  readonly code: number | null
  readonly findings: readonly string[]
}

/** Runs the command in a folder, and reads what it found: `level check: message`. */
async function doctor(
  folder: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<Examined> {
  const free = { _OSMOSIS_ROLLOUT_PORT: '0', ...env }
  const { code, stdout } = await run(['doctor', '--json', ...args], free, folder)
  return { code, findings: readFindings(stdout) }
}

function readFindings(text: string): string[] {
  const { findings } = JSON.parse(text) as {
    findings: { level: string; check: string; message: string }[]
  }
  return findings.map((one) => `${one.level} ${one.check}: ${one.message}`)
}

const policies = 'default_policy = "echo"\n[policies.echo]\nmodule = "policies/echo.ts"\n'

/** A shell with mounts of its own, for which root is not needed. */
const unshare = ['unshare', '--map-root-user', '--mount', 'sh', '-euc'] as const

/** Calls the command on a file system of its own: `$1` is its folder, `$2` its size. */
function doctorOnDisk(folder: string, size: string, fill: string): Examined {
  const script = `mount -t tmpfs -o size=$2 tmpfs "$1"; cd "$1"; ${fill}; shift 2; exec "$@"`
  const command = [process.execPath, bin, 'doctor', '--json']
  const [program, ...args] = [...unshare, script, 'sh', folder, size, ...command]
  const { status, stdout } = spawnSync(program, args, { encoding: 'utf8' })
  return { code: status, findings: readFindings(stdout) }
}

const cannotMount =
  spawnSync('unshare', [...unshare.slice(1), 'mount -t tmpfs tmpfs /mnt']).status !== 0

it.each([
  ['npm create @osmosis@latest', undefined],
  ['npx osmosis rollout init <name> --existing', '{"name":"shop"}'],
])('says how a workspace starts where there is none: %s', async (command, manifest) => {
  const folder = await temporaryFolder(manifest === undefined ? {} : { 'package.json': manifest })
  for (const args of [['doctor'], ['validate']]) {
    const { stdout, stderr } = await run(args, { _OSMOSIS_ROLLOUT_PORT: '0' }, folder)
    expect((stdout + stderr).replaceAll(/\s+/g, ' ')).toContain(command)
  }
})

describe('osmosis doctor', () => {
  it('finds no problem in a valid workspace, and prints that', async () => {
    const folder = temporaryWorkspace({
      'osmosis.toml': policies,
      'configs/eval/echo.toml': evalConfig('echo'),
    })
    const { code, findings } = await doctor(folder)
    expect({ code, findings }).toEqual({
      code: 0,
      findings: [
        `ok Node.js: ${process.versions.node}`,
        'ok TypeScript: files are loaded without a build step',
        'ok port: 0 is free',
        expect.stringMatching(/^ok disk: [\d.]+ GiB are free in /),
        `ok workspace: ${folder}`,
        'ok config: configs/eval/echo.toml',
        'ok policy: echo: policies/echo.ts was loaded',
      ],
    })
    const { stdout } = await run(['doctor'], {}, folder)
    expect(stdout).toMatch(/^ok {4}Node\.js {5}\d+\.\d+\.\d+\nok {4}TypeScript {2}files/)
  })

  it('creates the folders of a workspace that are missing with --fix', async () => {
    const folder = await temporaryFolder({ 'osmosis.toml': policies, 'lib/a.ts': '' })
    const { findings } = await doctor(path.join(folder, 'lib'), ['--fix'])
    const folders = ['rollouts', 'configs/training', 'configs/eval', 'data']
    expect(findings.filter((finding) => finding.startsWith('ok workspace'))).toEqual([
      `ok workspace: ${folder}`,
      ...folders.map((name) => `ok workspace: created ${name}/`),
    ])
    expect(folders.every((name) => existsSync(path.join(folder, name)))).toBe(true)
    const again = await doctor(folder, ['--fix'])
    expect(again.findings.join()).not.toContain('created')
  })

  it('names packages that are missing, doubled, or too old for their adapter', async () => {
    const folder = await temporaryFolder({
      'package.json': JSON.stringify({
        dependencies: { '@osmosis/core': '1', '@osmosis/strands': '1', zod: '4' },
      }),
    })
    const add = (place: string, manifest: object): void => {
      mkdirSync(path.join(folder, place), { recursive: true })
      writeFileSync(path.join(folder, place, 'package.json'), JSON.stringify(manifest))
    }
    add('node_modules/@osmosis/core', { version: '1.2.0' })
    add('node_modules/@osmosis/strands', {
      version: '1.0.0',
      dependencies: { '@osmosis/core': '1' },
      peerDependencies: { '@strands-agents/sdk': '>=1.13.0 <2' },
    })
    add('node_modules/@osmosis/strands/node_modules/@osmosis/core', { version: '1.1.0' })
    add('node_modules/@strands-agents/sdk', { version: '1.9.3' })
    const { code, findings } = await doctor(folder)
    expect(code).toBe(1)
    expect(findings.slice(1, 5)).toEqual([
      'fail packages: Not installed: zod.',
      'warn packages: @osmosis/core is installed in several versions: 1.1.0, 1.2.0.',
      'ok packages: @osmosis/core 1.1.0 and 1.2.0, @osmosis/strands 1.0.0',
      'fail peer package: @osmosis/strands needs @strands-agents/sdk >=1.13.0 <2, but 1.9.3 is installed.',
    ])
    expect(findings.at(-1)).toMatch(/^warn workspace: No folder here or above/)
  })

  it('names configs and policies that do not work, and secrets that are not set', async () => {
    const folder = temporaryWorkspace({
      'osmosis.toml': `${policies}[policies.gone]\nmodule = "policies/gone.ts"\n[policies.paid]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\napi_key_env = "NO_SUCH_KEY"\n`,
      'configs/eval/echo.toml': evalConfig('echo', '[secrets]\nrequired = ["SHOP_TOKEN", "SET"]\n'),
      'configs/eval/unknown.toml': evalConfig('unknown'),
      'configs/training/echo.toml': '[experiment]\nrollout = "echo"\n',
    })
    const { code, findings } = await doctor(folder, [], { SET: 'a secret' })
    expect(code).toBe(1)
    expect(findings.slice(5)).toEqual([
      'ok config: configs/eval/echo.toml',
      expect.stringMatching(/^fail config: Invalid eval config .*unknown\.toml:\n- experiment/),
      expect.stringMatching(
        /^fail config: The platform would refuse configs\/training\/echo\.toml:\n- /,
      ),
      'ok learner: uv is there for osmosis train local',
      'ok secret: SET is set',
      'fail secret: SHOP_TOKEN is not set; named by configs/eval/echo.toml.',
      'ok policy: echo: policies/echo.ts was loaded',
      expect.stringMatching(/^fail policy: gone: The policy file .* does not exist/),
      expect.stringMatching(/^fail policy: paid: .* NO_SUCH_KEY is not set/),
    ])
    expect(findings.join()).not.toContain('a secret')
  })

  it('names a config that cannot be read, and looks at no hidden file', async () => {
    const folder = temporaryWorkspace({
      'configs/eval/echo.toml': evalConfig('echo'),
      'configs/eval/old.toml/echo.toml': '',
    })
    // Emacs has such a link beside a file that is not saved.
    symlinkSync('me@host.1:2', path.join(folder, 'configs/eval/.#echo.toml'))
    const { code, findings } = await doctor(folder)
    expect(code).toBe(1)
    expect(findings.filter((finding) => finding.includes(' config: '))).toEqual([
      'ok config: configs/eval/echo.toml',
      expect.stringMatching(
        /^fail config: The platform would refuse configs\/eval\/old\.toml:\n- it cannot be read: EISDIR/,
      ),
    ])
  })

  it('asks a model only when it may', async () => {
    const model = await endpoint((_request, response) => refuse(response, 401, 'wrong key'))
    const folder = temporaryWorkspace({
      'osmosis.toml': `${policies}[policies.paid]\nbase_url = "${model.url}"\nmodel = "m"\n`,
    })
    expect((await doctor(folder)).findings.at(-1)).toBe(
      'ok policy: paid: not called without --online',
    )
    const { code, findings } = await doctor(folder, ['--online'])
    expect(code).toBe(1)
    expect(findings.at(-1)).toMatch(/^fail policy: paid: answered 401: /)
  })

  it.each([
    [['--model', 'm'], '--model only applies to an endpoint: pass --base-url as well.'],
    [
      ['--api-key-env', 'KEY'],
      '--api-key-env only applies to an endpoint: pass --base-url as well.',
    ],
    [
      ['--base-url', 'http://127.0.0.1:1/v1', '--model', 'm', '--online'],
      '--online and --base-url exclude each other: with --base-url only the endpoint is checked, and not the workspace.',
    ],
    [
      ['--base-url', 'http://127.0.0.1:1/v1', '--model', 'm', '--fix'],
      '--fix and --base-url exclude each other: with --base-url only the endpoint is checked, and not the workspace.',
    ],
  ])('refuses flags that do not apply: %j', async (flags, message) => {
    const { code, stderr } = await run(['doctor', ...flags], {}, await temporaryFolder({}))
    expect([code, stderr]).toEqual([2, `error: ${message}\n`])
  })

  it('names the folder for temporary files where it cannot be written', async () => {
    const folder = temporaryWorkspace({})
    vi.stubEnv('TMPDIR', '/nowhere')
    onTestFinished(() => void vi.unstubAllEnvs())
    const { code, findings } = await doctor(folder)
    expect(code).toBe(1)
    expect(findings).toContainEqual(
      expect.stringMatching(
        /^fail TypeScript: Not checked, because no file can be written in \/nowhere: ENOENT/,
      ),
    )
    expect(findings).toContainEqual(expect.stringMatching(/^ok disk: /))
  })

  it('names a port that somebody else listens on', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as { port: number }
    const { code, findings } = await doctor(temporaryWorkspace({}), [], {
      _OSMOSIS_ROLLOUT_PORT: String(port),
    })
    expect(code).toBe(0)
    expect(findings).toContainEqual(
      expect.stringMatching(
        new RegExp(`^warn port: osmosis serve cannot listen on port ${port}: `),
      ),
    )
  })
  onlyIf(!cannotMount, 'a machine that can mount tmpfs with unshare').it(
    `warns of a disk with little room, and fails on a full one`,
    { tags: 'slow' },
    async () => {
      const folder = await temporaryFolder()
      const disk = (level: string, room: string): string =>
        `${level} disk: ${room} are free in ${folder}`
      const little = doctorOnDisk(folder, '512m', 'true')
      expect(little.findings).toContain(disk('warn', '512 MiB'))
      expect(little.code).toBe(0)
      const full = doctorOnDisk(folder, '1m', 'cat /dev/zero > filler 2> /dev/null || true')
      expect(full.findings).toContain(disk('fail', '0 MiB'))
      expect(full.code).toBe(1)
    },
  )
})
