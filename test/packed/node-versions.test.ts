// What users run, from packed packages, on the oldest Node.js that the packages promise and on the newest.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { afterAll, beforeAll, expect, inject, onTestFinished } from 'vitest'

import { FakeTinker, onlyIf, startRedis, tokenModelFolder, withPrograms } from '../kit/index.ts'
import { startOwnRegistry, type OwnRegistry } from './own-registry.ts'
import { cleanUp, npmInstall, root, temporaryFolder } from './workspace.ts'

const { describe, it } = onlyIf(process.platform === 'linux', 'Linux, for which npm has Node.js')
const { it: itWithRedis } = process.platform === 'linux' ? withPrograms('redis-server') : { it }

const workflow = `class Echo extends AgentWorkflow {
  async run(ctx) {
    await requireRolloutContext('Echo').registerPolicySample('main').complete({ messages: ctx.prompt })
  }
}
class Version extends Grader {
  async grade(ctx) {
    ctx.setReward(process.versions.node === process.env.EXPECTED_NODE ? 1 : 0)
  }
}
`
const names = 'AgentWorkflow, Grader, requireRolloutContext'
const typed = workflow.replaceAll('(ctx)', '(ctx: any)')
const esm = `import { ${names} } from '@osmosis/core'\n`
const exported = 'export { Echo, Version }\n'

/** Entrypoints by the names of their files. Packages without `"type": "module"` are in \`commonjs\`. */
const entrypoints: Readonly<Record<string, string>> = {
  'echo.ts': `${esm}enum Kind { Plain }\nexport const kind = Kind.Plain\n${typed}${exported}`,
  'echo.mts': `${esm}${typed}${exported}`,
  'echo.cts': `import core = require('@osmosis/core')\nconst { ${names} } = core\n${typed}export = { Echo, Version }\n`,
  'echo.cjs': `const { ${names} } = require('@osmosis/core')\n${workflow}module.exports = { Echo, Version }\n`,
  'commonjs/echo.js': `const { ${names} } = require('@osmosis/core')\n${workflow}module.exports = { Echo, Version }\n`,
  'commonjs/echo.ts': `${esm}${typed}${exported}`,
}

let registry: OwnRegistry
let workspace: string
let nodes: string

beforeAll(async () => {
  registry = await startOwnRegistry(inject('packed'))
  nodes = await npmInstall(
    Object.entries({ oldest: '22.19.0', newest: 'latest' }).map(
      ([name, version]) => `${name}@npm:node-linux-${process.arch}@${version}`,
    ),
  )
  const folder = await temporaryFolder()
  await registry.run(folder, 'npm create @osmosis@latest my-agent -- --framework openai-agents')
  workspace = path.join(folder, 'my-agent')
  await registry.run(workspace, 'npm install @osmosis/bullmq @osmosis/controller')
  await cp(
    path.join(root, 'packages/cli/test/workspace/rollouts/doors'),
    path.join(workspace, 'rollouts/doors'),
    { recursive: true },
  )
  for (const file of ['configs/training/doors.toml', 'data/doors.jsonl']) {
    await cp(path.join(root, 'packages/cli/test/workspace', file), path.join(workspace, file))
  }
  const files = {
    'rows.jsonl':
      '{"user_prompt":"a","ground_truth":"a"}\n{"user_prompt":"b","ground_truth":"b"}\n',
    'policy.ts':
      "import { scriptedPolicy } from '@osmosis/controller'\nexport const policy = scriptedPolicy(() => 'hi')\n",
    'commonjs/package.json': '{ "private": true }\n',
  }
  for (const [file, text] of Object.entries({ ...files, ...entrypoints })) {
    await mkdir(path.dirname(path.join(workspace, file)), { recursive: true })
    await writeFile(path.join(workspace, file), text)
  }
})

afterAll(async () => {
  await registry[Symbol.asyncDispose]()
  await cleanUp()
})

describe.each(['oldest', 'newest'])('on the %s Node.js', (which) => {
  let environment: Record<string, string>

  beforeAll(async () => {
    const folder = path.join(nodes, 'node_modules', which)
    const { version } = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8')) as {
      version: string
    }
    const PATH = `${path.join(folder, 'bin')}:${process.env['PATH']}`
    environment = { PATH, EXPECTED_NODE: version.replace('v', '') }
    const found = (await osmosis('doctor', [0, 1])).stdout
    expect(found).toContain(`Node.js       ${environment['EXPECTED_NODE']}\n`)
  })

  interface Ended {
    readonly code: number | null
    readonly stdout: string
    readonly stderr: string
  }

  /** A command in the workspace, which is killed with its test. */
  function start(words: string): {
    ended: Promise<Ended>
    printed(text: RegExp): Promise<RegExpExecArray>
    end(): void
  } {
    const child = spawn(path.join(workspace, 'node_modules/.bin/osmosis'), words.split(' '), {
      cwd: workspace,
      env: { ...registry.environment, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    const texts = { stdout: '', stderr: '' }
    const watchers = new Set<() => void>()
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (text: string) => {
        texts[name] += text
        for (const watcher of watchers) watcher()
      })
    }
    const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, ...texts }))
    const end = (): void => {
      if (child.exitCode !== null || child.pid === undefined) return
      try {
        process.kill(-child.pid, 'SIGTERM')
      } catch (error) {
        // It has just ended by itself, which nobody has been told yet.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
      }
    }
    return {
      ended,
      end,
      printed: (pattern) =>
        new Promise((resolve, reject) => {
          const watcher = (): void => {
            const found = pattern.exec(texts.stdout + texts.stderr)
            if (found !== null) resolve(found)
          }
          watchers.add(watcher)
          watcher()
          void ended.then(() =>
            reject(new Error(`ended without ${pattern}: ${texts.stdout}${texts.stderr}`)),
          )
        }),
    }
  }

  async function osmosis(words: string, codes: readonly number[] = [0]): Promise<Ended> {
    const ended = await start(words).ended
    expect(codes, `osmosis ${words} printed ${ended.stdout}${ended.stderr}`).toContain(ended.code)
    return ended
  }

  const evaluate = (entrypoint: string, more: string): Promise<Ended> =>
    osmosis(`eval run -m ${entrypoint} -d rows.jsonl --fresh --min-pass-rate 1 ${more}`)

  it('the path of the README leads to the transcript of a wrong answer', async () => {
    const name = `readme-${which}`
    await osmosis('validate')
    await osmosis(`eval run configs/eval/my-agent.toml --name ${name}`)
    const { stdout } = await osmosis(`eval show ${name} 11.1`)
    expect(stdout).toMatch(/^11\.1 {2}reward 0, not passed\n/)
  })

  it.each(Object.keys(entrypoints))('the entrypoint %s is loaded', async (file) => {
    await evaluate(file, '--policy policy.ts')
  })

  it('workers run rollouts', async () => {
    await evaluate('echo.ts', '--policy policy.ts --workers 2')
  })

  itWithRedis('a server leaves its rollouts to a worker of a queue', async () => {
    const { url } = await startRedis()
    const [front, worker] = ['serve echo.ts --port 0 --no-auth', 'worker echo.ts'].map((words) => {
      const command = start(`${words} --redis ${url}`)
      onTestFinished(() => command.end())
      return command
    }) as [ReturnType<typeof start>, ReturnType<typeof start>]
    const [, address] = await front.printed(/Listening on (\S+)/)
    await worker.printed(/Taking rollouts from/)
    await osmosis(
      `eval run --server ${address} -d rows.jsonl --policy policy.ts --min-pass-rate 1 --fresh`,
    )
    for (const command of [worker, front]) {
      command.end()
      await command.ended
    }
  })

  it('a training on a service makes its steps', async () => {
    const service = await new FakeTinker().start()
    onTestFinished(() => service[Symbol.asyncDispose]())
    const output = path.join(workspace, '.osmosis', `trained-${which}`)
    const where = `--url ${service.url} --tokenizer ${await tokenModelFolder()} --output ${output}`
    const { stdout } = await osmosis(
      `train tinker configs/training/doors.toml ${where} --steps 2 --without-signal 0`,
    )
    expect(stdout).toContain('All steps are done.')
  })
})
