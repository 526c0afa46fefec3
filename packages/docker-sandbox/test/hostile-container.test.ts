import { DockerSandbox, type DockerSandboxOptions } from '@osmosis/docker-sandbox'
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest'

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

/** One container for the cases of a block: starting one takes longer than most cases. */
function sharedSandbox(options: Partial<DockerSandboxOptions> = {}): { box: DockerSandbox } {
  const shared = {} as { box: DockerSandbox }
  beforeAll(async () => {
    if ('docker' in daemon) shared.box = await DockerSandbox.start({ image, ...options })
  })
  afterAll(async () => shared.box?.close())
  return shared
}

async function labelled(label: string): Promise<string[]> {
  if (!('docker' in daemon)) throw new Error('There is no daemon.')
  const found = await daemon.docker.listContainers({ all: true, filters: { label: [label] } })
  return found.map(({ Id }) => Id)
}

/** A process that claims for every other one that it has ended with code 0. */
const forger =
  'while :; do for p in /proc/[0-9]*; do for m in $(cat $p/cmdline $p/environ | tr "\\0" "\\n" | grep -oE "[0-9a-f-]{36}"); do printf "\\n%s 0\\n" $m > $p/fd/2; done; done; done 2>/dev/null'
const left = (loop: string): string =>
  `setsid sh -c '${loop}' >/dev/null 2>&1 </dev/null & sleep 0.3`

describe('the exit code of a command in a container cannot be forged', () => {
  const shared = sharedSandbox()
  it.each([0, 1, 126, 127, 137, 255])('%i is what it was', async (code) => {
    expect(await shared.box.exec(`exit ${code}`)).toMatchObject({ exitCode: code, timedOut: false })
  })

  type Attack = readonly [what: string, line: string]
  const attacks: readonly Attack[] = [
    ['writes the marks of all others to their stderr', left(forger)],
    ['makes both files equal again and again', left('while :; do cp a b; done')],
    ['kills every judge', left('while :; do killall -9 cmp; done')],
    ['replaces the judge', 'cp /bin/true /bin/cmp; ln -sf /bin/true /bin/cmp; chmod 777 /bin'],
    ['ends the container', 'kill -9 1; kill -9 -1; kill 1'],
    ['kills the shell that runs it', 'kill -9 $PPID; kill -9 $$'],
    [
      'prints what Docker says',
      'echo "OCI runtime exec failed: exec failed: x: y: unknown"; exit 127',
    ],
    ['leaves as many processes as there may be', left('while :; do sleep 60 & done')],
  ]
  const moreAttacks: readonly Attack[] = [
    ['does so without the variables', left('exec env -i sh -c "while :; do cp a b; done"')],
    ['does so and ignores signals', left('trap "" HUP INT TERM; while :; do cp a b; done')],
    ['stops every judge', left('while :; do killall -STOP cmp sh; done')],
    ['puts a judge into the folder', 'cp /bin/true cmp; mkdir bin; cp /bin/true bin/cmp'],
    ['writes profiles', 'for f in .profile .ashrc .bashrc .bash_env; do echo exit 0 > $f; done'],
    ['writes a loader', 'echo /work/x.so > /etc/ld.so.preload; echo /work > /etc/ld.so.conf'],
    ['changes the limits of others', 'ulimit -f 0; ulimit -t 1; renice 19 1'],
    ['reads the memory of others', left('while :; do cat /proc/[0-9]*/mem; done')],
  ]
  const expectToFail = async (_: string, line: string): Promise<void> => {
    const box = await sandbox({ maxProcesses: 40 })
    await box.write('a', 'expected')
    await box.write('b', 'something else')
    await box.exec(line, { timeoutSeconds: 20 })
    await box.write('b', 'something else').catch(() => {})
    // A container whose processes cannot be killed is removed: then the judge fails.
    const judged = box.exec(['cmp', 'a', 'b'], { timeoutSeconds: 20 })
    const code = await judged.then(
      ({ exitCode }) => exitCode,
      (error: { code: string }) => error.code,
    )
    expect([1, 'tool_failed']).toContain(code)
  }
  it.each(attacks)('by code that %s', expectToFail)
  it.each(moreAttacks)('by code that %s', { tags: 'nightly' }, expectToFail)

  it('while the code runs beside the judge', async () => {
    const box = await sandbox()
    await box.write('a', 'expected')
    await box.write('b', 'something else')
    const code = box.exec(forger, { timeoutSeconds: 6 })
    for (let time = 0; time < 5; time += 1) {
      expect(await box.exec(['cmp', 'a', 'b'])).toMatchObject({ exitCode: 1 })
      expect(await box.exec(['cmp', 'a', 'a'])).toMatchObject({
        exitCode: 0,
        stderr: expect.any(String),
      })
    }
    expect(await code).toMatchObject({ exitCode: null, timedOut: true })
  })

  it('and nothing that a command started runs after it, while others run', async () => {
    const box = await sandbox()
    const other = box.exec('until [ -e over ]; do sleep 0.1; done; echo done')
    const leaving = 'setsid sleep 71 & nohup sleep 72 & (sleep 73 &) & sleep 0.2'
    await Promise.all([box.exec(leaving), box.exec(leaving), box.exec(leaving)])
    // A killed process is listed until a busy machine has time to end it.
    const listed = async (): Promise<string> => (await box.exec('ps -o args')).stdout
    await expect.poll(listed, { timeout: 20_000 }).not.toMatch(/^sleep 7/m)
    await box.exec('touch over')
    expect(await other).toMatchObject({ exitCode: 0, stdout: 'done\n' })
  })

  it('and commands that start while others end are not killed', async () => {
    const box = await sandbox()
    const chain = async (name: number): Promise<unknown[]> => {
      const codes: unknown[] = []
      for (let time = 0; time < 5; time += 1) {
        codes.push((await box.exec(`sleep 0.${name}; exit ${name}`)).exitCode)
      }
      return codes
    }
    const names = [1, 2, 3, 4, 5, 6]
    const ran = await Promise.all(names.map(chain))
    expect(ran).toEqual(names.map((name) => Array.from({ length: 5 }, () => name)))
  })
})

describe('reads of a container are bounded', () => {
  const shared = sharedSandbox({ maxBytes: 1000 })
  const inFolder = async (what: string, line: string): Promise<string> => {
    const folder = what.replaceAll(/\W+/g, '-')
    await shared.box.exec(`mkdir ${folder}; cd ${folder}; ${line}`)
    return folder
  }
  const files: readonly (readonly [what: string, line: string, message: RegExp])[] = [
    ['a FIFO', 'mkfifo x', /not a regular file/],
    ['a link to a FIFO', 'mkfifo f; ln -s f x', /not a regular file/],
    ['a link to /dev/zero', 'ln -s /dev/zero x', /not a regular file/],
    ['a link to /dev/stdin', 'ln -s /dev/stdin x', /not a regular file|cannot be/],
    ['a folder', 'mkdir x', /not a regular file/],
    ['a link to nothing', 'ln -s nothing x', /No such file|cannot be written/],
    ['a link to itself', 'ln -s x x', /cannot be/],
    ['a file that cannot be read', ': > x; chmod 000 x', /Permission denied/],
  ]
  it.each(files)('%s is an error at once, also for a write', async (what, line, message) => {
    const { box } = shared
    const file = `${await inFolder(what, line)}/x`
    await expect(box.read(file)).rejects.toMatchObject({
      code: 'tool_failed',
      message: expect.stringMatching(message),
    })
    if (what === 'a link to nothing') return
    await expect(box.write(file, 'y')).rejects.toMatchObject({ code: 'tool_failed' })
  })

  it.each([
    ['a sparse file', 'truncate -s 1000000000000 x'],
    ['a link to a sparse file', 'truncate -s 1000000000000 y; ln -s y x'],
    ['one byte too many', 'head -c 1001 /dev/zero > x'],
    ['much more', 'head -c 5000000 /dev/zero > x'],
    ['a file that grows', "setsid sh -c 'yes > x' & sleep 0.2; ls -l x"],
  ])('%s is an error', async (what, line) => {
    const { box } = shared
    const file = `${await inFolder(what, line)}/x`
    await expect(box.read(file)).rejects.toMatchObject({
      code: 'tool_failed',
      message: expect.stringMatching(/^[\w-]+\/x has more than 1000 bytes, the limit of maxBytes/),
    })
    await box.write('y z', 'a'.repeat(1000))
    expect(await box.read('y z')).toHaveLength(1000)
    await expect(box.read('y z', { maxBytes: 999 })).rejects.toThrow('more than 999 bytes')
  })

  it.each(['a\nb', '-rf', '$(id)', '"\'*'])('a file may be named %j', async (name) => {
    const { box } = shared
    await box.write(`d/${name}`, name)
    expect(Buffer.from(await box.read(`d/${name}`)).toString()).toBe(name)
  })
})

describe('a container has few rights', () => {
  it('no capabilities, and a user who is not root', async () => {
    const box = await sandbox()
    const { stdout } = await box.exec('id -u; grep -E "^Cap(Prm|Eff|Bnd)" /proc/self/status')
    expect(stdout.split('\n')).toEqual([
      '65534',
      ...['Prm', 'Eff', 'Bnd'].map((name) => `Cap${name}:\t0000000000000000`),
      '',
    ])
    expect((await box.exec('echo > /etc/x || echo > /bin/x')).exitCode).not.toBe(0)
    expect((await box.exec('echo > x && mkdir -p y/z')).exitCode).toBe(0)
  })

  it('but root, without capabilities, where an option names it', async () => {
    const box = await sandbox({ user: '0' })
    const { stdout } = await box.exec('id -u; grep -E "^CapEff" /proc/self/status')
    expect(stdout).toBe('0\nCapEff:\t0000000000000000\n')
    await box.exec(left('while :; do sleep 1; done'))
    const count = 'ps -o args | grep -c "while :; [d]o sleep 1;"'
    await expect.poll(async () => (await box.exec(count)).stdout, { timeout: 20_000 }).toBe('0\n')
  })

  it('a label of its run, by which only its containers are removed', async () => {
    const [mine, other] = [await sandbox({ run: 'mine' }), await sandbox({ run: 'other' })]
    const byDefault = await sandbox()
    expect(await labelled('osmosis.run=mine')).toHaveLength(1)
    expect(await labelled(`osmosis.run=${process.pid}`)).toHaveLength(1)
    expect((await labelled('osmosis.sandbox')).length).toBeGreaterThanOrEqual(3)
    if (!('docker' in daemon)) return
    for (const id of await labelled('osmosis.run=mine')) {
      await daemon.docker.getContainer(id).remove({ force: true })
    }
    await expect(mine.exec('true')).rejects.toThrow('The container has ended')
    expect((await other.exec('true')).exitCode).toBe(0)
    expect((await byDefault.exec('true')).exitCode).toBe(0)
  })
})
