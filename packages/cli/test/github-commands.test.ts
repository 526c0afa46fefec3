import { Writable } from 'node:stream'

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { runs } from '../../../test/kit/index.ts'
import { withoutCommands } from '../src/command/github-commands.ts'
import { run, sendRow } from './in-process.ts'
import { failure, makeRun } from './made-runs.ts'
import { osmosis, startOsmosis, temporaryFolder } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

const inGitHub = { GITHUB_ACTIONS: 'true' }

/** The lines that the runner of GitHub Actions would execute, by its own rules. */
function commandsIn(output: string): string[] {
  const lines = output.split(/\r\n|\r|\n/)
  return lines.filter((line) => /^[\s\x85]*::/.test(line) || line.includes('##['))
}

/** A text of a model, as one line and over several. */
const attack = [
  '##[error]from a model',
  '::error file=a.ts,line=1::from a model',
  '  ::stop-commands::token',
  '\u00A0\u2003::set-output name=x::y',
  'text before ##[group]::group::',
  '\r::add-mask::e',
].join('\n')

/** A run in which everything that a model or its code may write is an attack. */
async function attackedRun(): Promise<string> {
  const call = { tool_call_id: 'c', function_name: attack, arguments: { [attack]: attack } }
  return makeRun({
    outputRoot: temporaryFolder(),
    name: 'attacked',
    rows: 2,
    inputs: { name: '##[warning]a model' },
    items: [
      {
        row: 0,
        attempt: 0,
        label: attack,
        event: { summary: attack, reward: 0 },
        samples: {
          main: [
            { step_id: 1, source: 'user', message: attack },
            {
              step_id: 2,
              source: 'agent',
              message: attack,
              reasoning_content: attack,
              tool_calls: [call],
            },
            { step_id: 3, source: 'agent', message: attack },
          ],
        },
      },
      { row: 1, attempt: 0, event: failure('agent_error', attack) },
    ],
  })
}

describe('commands of GitHub Actions in the text of a model are broken up', () => {
  it.each([
    'eval show <run>',
    'eval show <run> --details',
    'eval show <run> --failed',
    'eval show <run> 0.1',
    'eval show <run> 1.1',
    'eval show <run> 0.1 --json',
    'eval compare <run> <run>',
    'eval show ##[error]no-run',
  ])('in what this prints: osmosis %s', async (words) => {
    const location = await attackedRun()
    const args = words.split(' ').map((word) => word.replace('<run>', location))
    const { stdout, stderr } = await run(args, inGitHub)
    expect(commandsIn(stdout)).toEqual([])
    expect(commandsIn(stderr)).toEqual([])
    // What remains is the same text, and the same data.
    const elsewhere = await run(args, { GITHUB_ACTIONS: '' })
    expect(commandsIn(elsewhere.stdout + elsewhere.stderr)).not.toEqual([])
    expect([stdout, stderr].map(whole)).toEqual([elsewhere.stdout, elsewhere.stderr])
  })
})

describe('data that is exported to stdout', () => {
  it.each(['--csv', '--junit'])(
    'is unchanged, and no command while it is written: %s -',
    async (flag) => {
      const args = ['eval', 'export', await attackedRun(), flag, '-', '--filter', 'row:0']
      const { stdout, stderr } = await run(args, inGitHub)
      const elsewhere = await run(args, { GITHUB_ACTIONS: '' })
      expect(stdout).toBe(elsewhere.stdout)
      expect(stdout).toContain('from a model')
      const [, token = ''] = /^::stop-commands::(\S{36})\n\n::\1::\nstdout: /.exec(stderr) ?? []
      expect(token).not.toBe('')
      expect(commandsIn(stderr)).toEqual([`::stop-commands::${token}`, `::${token}::`])
    },
  )

  it('is unchanged where the process guards its streams, too', async () => {
    const args = ['eval', 'export', await attackedRun(), '--csv', '-']
    const { stdout } = await osmosis(args, inGitHub)
    expect(stdout).toContain('from a model')
    expect(stdout).toBe((await run(args, { GITHUB_ACTIONS: '' })).stdout)
  })
})

describe('whatever is written under GITHUB_ACTIONS', () => {
  it('has no command for the runner, in any pieces, as text or bytes, and is otherwise the same', () => {
    const parts = fc.constantFrom(
      ':',
      '::',
      '#',
      '[',
      ']',
      '##[',
      '::error::',
      ' ',
      '\t',
      '\n',
      '\r',
      '\r\n',
      '\u00A0',
      '\u0085',
      '\x1B[31m',
      'a',
      '"',
      '{',
      'é',
      '\u{1f600}',
      '\uFEFF',
    )
    const text = fc.array(parts, { maxLength: 40 }).map((all) => all.join(''))
    fc.assert(
      fc.property(fc.array(text, { maxLength: 8 }), fc.boolean(), (pieces, areBytes) => {
        const written: (string | Uint8Array)[] = []
        const stream = new Writable({
          decodeStrings: false,
          write: (chunk: string | Uint8Array, _encoding, done) => {
            written.push(chunk)
            done()
          },
        })
        const guarded = withoutCommands(stream, inGitHub)
        for (const piece of pieces) guarded.write(areBytes ? Buffer.from(piece) : piece)
        const output = written.map((chunk) => chunk.toString()).join('')
        expect(commandsIn(output)).toEqual([])
        expect(whole(output)).toBe(pieces.join(''))
      }),
      { numRuns: runs(2000) },
    )
  })

  it('is the data that it was, for any JSON on one line or on several', () => {
    const texts = fc.array(fc.constantFrom('##[', '#', '[', '::', 'a', 'é', ' '), {
      maxLength: 8,
    })
    const text = texts.map((all) => all.join(''))
    const json = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        text,
        fc.nat(),
        fc.array(tie('value')),
        fc.dictionary(text, tie('value')),
      ),
    })).value
    fc.assert(
      fc.property(fc.array(json), fc.constantFrom(0, 2), fc.nat(), (value, indent, at) => {
        let output = ''
        const stream = new Writable({
          write: (chunk, _encoding, done) => {
            output += String(chunk)
            done()
          },
        })
        const written = JSON.stringify(value, null, indent)
        const guarded = withoutCommands(stream, inGitHub)
        guarded.write(written.slice(0, at % (written.length + 1)))
        guarded.write(written.slice(at % (written.length + 1)))
        expect(commandsIn(output)).toEqual([])
        expect(JSON.parse(output)).toEqual(value)
      }),
      { numRuns: runs(500) },
    )
  })

  it(
    'includes the log of serve and what code of the user prints, in its process and in workers',
    { tags: 'slow' },
    async () => {
      const root = temporaryWorkspace({
        'rollouts/said/main.ts': `
        import { AgentWorkflow } from '@osmosis/core'
        const said = ${JSON.stringify(attack)}
        export class Said extends AgentWorkflow {
          async run() {
            process.stdout.write(said + '\\n')
            process.stderr.write(Buffer.from(said + '\\n'))
            console.log(said)
            throw new Error(said)
          }
        }`,
      })
      for (const flags of [[], ['--workers', '1']]) {
        const args = [
          'serve',
          'rollouts/said/main.ts',
          '--port',
          '0',
          '--no-trajectories',
          '--log-level',
          'debug',
        ]
        const serving = startOsmosis([...args, ...flags], inGitHub, root)
        const [, url = ''] = await serving.printed(/Listening on (\S+)/)
        await sendRow(url, root)
        serving.child.kill('SIGTERM')
        const { stdout, stderr } = await serving.finished
        expect(stdout).toContain('from a model')
        expect(stderr).toContain('text before')
        expect(commandsIn(stdout)).toEqual([])
        expect(commandsIn(stderr)).toEqual([])
      }
    },
  )
})

it('the first failure of a run is one line of ordinary length, where the output has no width', async () => {
  const message = `first ${'x'.repeat(5000)}`
  const items = [
    { row: 0, attempt: 0, event: failure('agent_error', message) },
    { row: 1, attempt: 0, event: { reward: 0 } },
  ]
  const location = await makeRun({ outputRoot: temporaryFolder(), name: 'r', rows: 2, items })
  const { stdout } = await run(['eval', 'show', location])
  const [line = ''] = /^First failure .*$/m.exec(stdout) ?? []
  expect(line).toMatch(/^First failure {2}1 × agent_error: first x+…$/)
  expect(line.length).toBeLessThan(250)
})

/** The text before it was broken up. */
function whole(text: string): string {
  return text.replaceAll('\u200B', '').replaceAll(String.raw`##\u005b`, '##[')
}
