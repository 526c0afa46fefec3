import { once } from 'node:events'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

import { DockerSandbox, type DockerSandboxOptions } from '@osmosis/docker-sandbox'
import { afterAll, expect, it as always, onTestFinished, vi, type MockInstance } from 'vitest'

import { onlyIf } from '../../../test/kit/index.ts'
import { image, startDocker } from './docker-daemon.ts'

const daemon = await startDocker()
afterAll(async () => {
  if ('stop' in daemon) await daemon.stop()
})
const { describe, it } = onlyIf('docker' in daemon, 'missing' in daemon ? daemon.missing : '')

async function sandbox(options: Partial<DockerSandboxOptions> = {}): Promise<DockerSandbox> {
  const box = await DockerSandbox.start({ image, ...options })
  onTestFinished(async () => box.close())
  return box
}

async function containers(): Promise<number> {
  if (!('docker' in daemon)) throw new Error('There is no daemon.')
  const filters = { label: ['osmosis.sandbox'] }
  return (await daemon.docker.listContainers({ all: true, filters })).length
}

/** Makes each question about a command fail, as it does without a free file descriptor. */
function failingInspections(): MockInstance {
  if (!('docker' in daemon)) throw new Error('There is no daemon.')
  const prototype = Object.getPrototypeOf(daemon.docker.getExec('any')) as {
    inspect: () => unknown
  }
  return vi.spyOn(prototype, 'inspect').mockRejectedValue(new Error('connect EMFILE'))
}

describe('a command', () => {
  it('runs in the folder, with its input and the variables that it was given', async () => {
    const box = await sandbox({ env: { GIVEN: '1' } })
    await box.write('a/b.txt', 'hello')
    const line = 'cat a/b.txt; cat; echo " $GIVEN $OWN $HOME"; echo bad >&2; exit 3'
    expect(await box.exec(line, { input: ' in', env: { OWN: '2' } })).toEqual({
      exitCode: 3,
      stdout: 'hello in 1 2 /work\n',
      stderr: 'bad\n',
      timedOut: false,
      truncated: false,
    })
    expect((await box.exec(['cat', 'b.txt'], { cwd: 'a' })).stdout).toBe('hello')
    const words = await box.exec(['printf', '%s|', 'a b', "it's", '$HOME', ''])
    expect(words.stdout).toBe("a b|it's|$HOME||")
  })

  it('need not read its input', async () => {
    const box = await sandbox()
    const input = 'x'.repeat(10_000_000)
    const { exitCode, stdout } = await box.exec('head -c 1; exit 3', { input })
    expect([exitCode, stdout]).toEqual([3, 'x'])
  })

  it(
    'has its exit code although it has closed its outputs long before',
    { tags: 'slow' },
    async () => {
      const box = await sandbox()
      const ended = await box.exec(['sh', '-c', 'exec >log 2>&1; sleep 7; exit 3'])
      expect([ended.exitCode, ended.timedOut]).toEqual([3, false])
      const late = await box.exec(['sh', '-c', 'exec >log 2>&1; sleep 60'], { timeoutSeconds: 2 })
      expect([late.exitCode, late.timedOut]).toEqual([null, true])
    },
  )

  it('has its exit code although Docker does not answer for a while', async () => {
    const box = await sandbox()
    const failures = failingInspections()
    const ended = box.exec('sleep 1.5; exit 3')
    await expect.poll(() => failures.mock.calls.length).toBeGreaterThan(1)
    failures.mockRestore()
    expect((await ended).exitCode).toBe(3)
  })

  it(
    'fails, and has no exit code, where Docker does not say how it ended',
    { tags: 'slow' },
    async () => {
      const box = await sandbox()
      const failures = failingInspections()
      onTestFinished(() => failures.mockRestore())
      await expect(box.exec('exit 0')).rejects.toMatchObject({
        code: 'tool_failed',
        message: expect.stringContaining('connect EMFILE'),
      })
    },
  )

  type Run = (box: DockerSandbox, line: string, started: () => Promise<unknown>) => Promise<unknown>
  const ends: [string, Run][] = [
    ['its time is over', async (box, line) => box.exec(line, { timeoutSeconds: 2 })],
    [
      'the signal is aborted',
      async (box, line, started) => {
        const controller = new AbortController()
        void started().then(() => controller.abort(new Error('over')))
        const run = box.exec(line, { signal: controller.signal })
        await expect(run).rejects.toThrow('over')
      },
    ],
    ['it has ended itself', async (box, line) => box.exec(line.replace('wait', 'sleep 0.2'))],
  ]
  it.each(ends)('ends with what it started when %s, and no other command', async (_, run) => {
    const box = await sandbox()
    const other = box.exec('until [ -e over ]; do sleep 0.1; done; echo other')
    const started = async (): Promise<unknown> =>
      expect.poll(async () => (await box.exec('cat pid')).exitCode, { timeout: 20_000 }).toBe(0)
    await run(box, "sh -c 'sleep 61 & echo x > pid; wait'", started)
    // A killed process is listed until a busy machine has time to end it.
    const count = async (): Promise<string> =>
      (await box.exec("ps -o args | grep -c '^sleep 61'")).stdout
    await expect.poll(count, { timeout: 20_000 }).toBe('0\n')
    await box.exec('touch over')
    expect((await other).stdout).toBe('other\n')
  })

  it('ends when the sandbox is closed, and none starts after that', async () => {
    const box = await sandbox()
    const running = box.exec('sleep 60')
    await sleep(1000)
    await Promise.all([box.close(), box.close()])
    expect(await running).toMatchObject({ exitCode: null, timedOut: false })
    await expect(box.exec('true')).rejects.toThrow('The sandbox is closed.')
    await expect.poll(containers).toBe(0)
  })

  it('does not wait for a process that left its group', async () => {
    const box = await sandbox()
    expect(await box.exec('setsid sleep 30 & sleep 0.5; echo out')).toMatchObject({
      stdout: 'out\n',
    })
  })

  it('says that its time is over, or that its output is too long', async () => {
    const box = await sandbox({ maxOutputBytes: 5 })
    expect(await box.exec('sleep 9', { timeoutSeconds: 0.1 })).toMatchObject({
      exitCode: null,
      timedOut: true,
    })
    expect(await box.exec('echo 123456789; echo 1 >&2')).toEqual({
      exitCode: 0,
      stdout: '12345',
      stderr: '1\n',
      timedOut: false,
      truncated: true,
    })
    const much = 'yes | head -c 3000000 >&2; exit 4'
    expect(await box.exec(much, { maxOutputBytes: 10 })).toMatchObject({
      exitCode: 4,
      stderr: 'y\ny\ny\ny\ny\n',
      truncated: true,
    })
  })

  it('that cannot start is an error', async () => {
    const box = await sandbox()
    await expect(box.exec(['no-such-program'])).rejects.toMatchObject({
      code: 'tool_failed',
      message: expect.stringMatching(
        /^no-such-program cannot be started: .*executable file not found/s,
      ),
    })
    await expect(box.exec('true', { cwd: 'missing' })).rejects.toMatchObject({
      code: 'tool_failed',
    })
  })

  it('runs beside 20 others', async () => {
    const box = await sandbox()
    const numbers = Array.from({ length: 20 }, (_, number) => number)
    const ran = await Promise.all(
      numbers.map(async (number) => box.exec(`cat; echo ${number} >&2`, { input: `${number}` })),
    )
    expect(ran.map(({ stdout, stderr }) => [stdout, stderr])).toEqual(
      numbers.map((number) => [`${number}`, `${number}\n`]),
    )
  })
})

describe('the container', () => {
  it('has no network, limited memory and processes, and none of its files reach this machine', async () => {
    const box = await sandbox({ memoryBytes: 32 * 1024 ** 2, maxProcesses: 16 })
    expect((await box.exec(['ls', '/sys/class/net'])).stdout).toBe('lo\n')
    const hungry = await box.exec('dd if=/dev/zero of=/dev/null bs=100M count=1')
    expect(hungry).toMatchObject({ exitCode: 137 })
    const many = await box.exec('for i in $(seq 40); do sleep 5 & done; wait')
    expect(many.stderr).toContain("can't fork")
    expect((await box.exec('echo well')).stdout).toBe('well\n')
  })

  it('has the network, or more settings of Docker, when asked', async () => {
    const box = await sandbox({ network: true, hostConfig: { NetworkMode: 'host' } })
    expect((await box.exec(['ls', '/sys/class/net'])).stdout).not.toBe('lo\n')
  })

  it('is said to have ended when somebody removes it', async () => {
    const box = await sandbox()
    if (!('docker' in daemon)) return
    const filters = { label: ['osmosis.sandbox'] }
    for (const { Id } of await daemon.docker.listContainers({ filters })) {
      await daemon.docker.getContainer(Id).remove({ force: true })
    }
    await expect(box.exec('true')).rejects.toMatchObject({
      code: 'tool_failed',
      message: expect.stringContaining('The container has ended'),
    })
    await box.close()
  })

  it('is not left behind when the start is aborted', async () => {
    const controller = new AbortController()
    const start = DockerSandbox.start({ image, signal: controller.signal })
    controller.abort(new Error('over'))
    await expect(start).rejects.toThrow('over')
    await expect.poll(containers).toBe(0)
  })
})

it('reads and writes files below the folder only', async () => {
  const box = await sandbox()
  const bytes = new Uint8Array(3_000_000).map((_, index) => index % 251)
  await box.write('x/y z/$0.bin', bytes)
  expect(Buffer.compare(await box.read('x/y z/$0.bin'), bytes)).toBe(0)
  for (const outside of ['../a', '/etc/hosts', 'x/../../a']) {
    await expect(box.read(outside)).rejects.toMatchObject({ code: 'invalid_request' })
    await expect(box.write(outside, '')).rejects.toMatchObject({ code: 'invalid_request' })
  }
  await expect(box.read('missing')).rejects.toThrow(/^missing cannot be read: cat: .*No such file/)
  await expect(box.write('x', '')).rejects.toMatchObject({ code: 'tool_failed' })
})

it('an image that is nowhere is an error that names it', async () => {
  await expect(DockerSandbox.start({ image: 'localhost:1/none' })).rejects.toMatchObject({
    code: 'tool_failed',
    message: expect.stringMatching(/^The image localhost:1\/none is not here and cannot be pulled/),
  })
})

function useDockerAt(host: string): void {
  const before = process.env['DOCKER_HOST']
  process.env['DOCKER_HOST'] = host
  onTestFinished(() => {
    if (before === undefined) delete process.env['DOCKER_HOST']
    else process.env['DOCKER_HOST'] = before
  })
}

async function useDaemon(answer: RequestListener): Promise<void> {
  const server = createServer(answer)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    await server[Symbol.asyncDispose]()
  })
  useDockerAt(`tcp://127.0.0.1:${(server.address() as AddressInfo).port}`)
}

/** A daemon without the image, which refuses all containers once the image is there. */
async function useDaemonThatPulls(pull: (progress: ServerResponse) => void): Promise<void> {
  let isPulled = false
  await useDaemon((request, response) => {
    if (request.url?.startsWith('/images/create')) {
      isPulled = true
      pull(response)
    } else {
      response.writeHead(isPulled ? 409 : 404, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ message: isPulled ? 'too many containers' : 'no such image' }))
    }
  })
}

/** Docker 29 answers so, where a command ends at once: it leaves out what is empty, such as the user of the image. */
const answerOf29 = {
  Id: 'one',
  Config: { Cmd: ['sh'] },
  ExitCode: 0,
  DriverStatus: [['driver-type', 'io.containerd.snapshotter.v1']],
}

always(
  'Docker 29 runs commands as nobody, and warns once that it does not limit the disk',
  async () => {
    const users: unknown[] = []
    const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const body = await text(request)
      if (request.url === '/containers/one/exec') {
        users.push((JSON.parse(body) as { readonly User?: string }).User)
      }
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(answerOf29))
    }
    await useDaemon((request, response) => void answer(request, response))
    const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    onTestFinished(() => warnings.mockRestore())
    // The first container of a process finds out what the disk has.
    vi.resetModules()
    const { DockerSandbox: Sandbox } = await import('@osmosis/docker-sandbox')
    const start = async (): Promise<void> => (await Sandbox.start({ image })).close()
    await Promise.all([start(), start()])
    await start()
    // Root prepares the folder.
    expect(users.filter((user) => user !== '0')).toEqual(Array(3).fill('65534:65534'))
    expect(warnings.mock.calls).toEqual([
      [expect.stringContaining('does not limit the disk'), 'OsmosisWarning'],
    ])
  },
)

always('an image of which the daemon says nothing runs commands as nobody', async () => {
  const users: unknown[] = []
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await text(request)
    if (request.url === '/containers/one/exec') {
      users.push((JSON.parse(body) as { readonly User?: string }).User)
    }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ Id: 'one', ExitCode: 0 }))
  }
  await useDaemon((request, response) => void answer(request, response))
  const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  onTestFinished(() => warnings.mockRestore())
  await (await DockerSandbox.start({ image })).close()
  expect(users).toContain('65534:65534')
})

always('a container that Docker refuses after the pull is an error that says so', async () => {
  await useDaemonThatPulls((progress) => progress.end('{"status":"Download complete"}\n'))
  await expect(DockerSandbox.start({ image })).rejects.toMatchObject({
    code: 'tool_failed',
    message: expect.stringMatching(
      /^Docker refused to create the container: .*too many containers/,
    ),
  })
})

always('a pull ends when the start is aborted', async () => {
  const controller = new AbortController()
  const { promise: closed, resolve } = Promise.withResolvers<unknown>()
  await useDaemonThatPulls((progress) => {
    progress.on('close', resolve)
    progress.write('{"status":"Downloading"}\n', () => controller.abort(new Error('over')))
  })
  await expect(DockerSandbox.start({ image, signal: controller.signal })).rejects.toThrow('over')
  await closed
})

always.each([
  ['nowhere', async () => useDockerAt('unix:///nowhere/docker.sock')],
  ['at an address that is none', async () => useDockerAt('tcp://no address')],
  ['there and hangs up', async () => useDaemon((request) => request.socket.destroy())],
])('a daemon that is %s is an error that says what to do', async (_where, use) => {
  await use()
  await expect(DockerSandbox.start({ image })).rejects.toMatchObject({
    code: 'tool_failed',
    message: expect.stringMatching(
      /^The Docker daemon cannot be reached; start it, or set DOCKER_HOST to where it listens/,
    ),
  })
})

always('a limit that is none is an error', async () => {
  await expect(DockerSandbox.start({ image, memoryBytes: 0.5 })).rejects.toMatchObject({
    code: 'invalid_config',
  })
})
