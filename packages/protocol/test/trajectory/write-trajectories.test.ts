import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import path from 'node:path'

import { toRolloutSample } from '@osmosis/core'
import {
  validateTrajectory,
  writeTrajectories,
  type Trajectory,
} from '@osmosis/protocol/trajectory'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { temporaryFolder, runs } from '../../../../test/kit/index.ts'
import { ended, sampleOf, samples, user } from './documents.ts'

const read = (root: string, name = 'r1/trajectory.json'): Trajectory => {
  const document = JSON.parse(readFileSync(path.join(root, name), 'utf8')) as Trajectory
  expect(validateTrajectory(document)).toEqual([])
  return document
}

describe('the files of a rollout', () => {
  it('are one document for the only sample', async () => {
    const root = await temporaryFolder()
    await writeTrajectories(root, ended({ samples: samples(sampleOf(user('Grüße'))) }))
    expect(readdirSync(path.join(root, 'r1'))).toEqual(['trajectory.json'])
    expect(read(root).steps).toEqual([{ step_id: 1, source: 'user', message: 'Grüße' }])
  })

  it('are a document for each of several samples, under safe and distinct names', async () => {
    const root = await temporaryFolder()
    const ids = ['main', '../../etc/passwd', 'a b', 'a/b', 'A?B', '...', '..', 'x'.repeat(256)]
    const several = samples(...ids.map((id) => toRolloutSample({ id, messages: [] })))
    await writeTrajectories(root, ended({ samples: several }))
    const names = readdirSync(path.join(root, 'r1'))
    expect(names.toSorted()).toEqual(
      [
        'trajectory-main.json',
        'trajectory-_.._etc_passwd.json',
        'trajectory-a_b.json',
        'trajectory-a_b-2.json',
        'trajectory-A_B-3.json',
        'trajectory-unnamed.json',
        'trajectory-unnamed-2.json',
        `trajectory-${'x'.repeat(150)}.json`,
      ].toSorted(),
    )
    const found = names.map((name) => read(root, `r1/${name}`).trajectory_id)
    expect(new Set(found)).toEqual(new Set(ids.map((id) => `r1/${id}`)))
  })

  it('stay below the root, whatever the rollout id is', async () => {
    const root = await temporaryFolder({ 'inner/keep': '' })
    await writeTrajectories(path.join(root, 'inner'), ended({ rolloutId: '../../outer' }))
    expect(readdirSync(root)).toEqual(['inner'])
    expect(readdirSync(path.join(root, 'inner')).toSorted()).toEqual([
      expect.stringMatching(/^_\.\._outer-[0-9a-f]{16}$/),
      'keep',
    ])
  })

  it('are in a folder of its own for each rollout, also where an id is too long or unsafe', async () => {
    const root = await temporaryFolder()
    const long = 'x'.repeat(255)
    const ids = ['a b', 'a/b', 'a_b', '..', '', long, `${long}y`, `${long}z`, 'ü'.repeat(200)]
    for (const rolloutId of ids) await writeTrajectories(root, ended({ rolloutId }))
    const folders = readdirSync(root)
    const found = folders.map((folder) => read(root, `${folder}/trajectory.json`).session_id)
    expect(new Set(found)).toEqual(new Set(ids))
    expect(folders).toEqual(expect.arrayContaining(['a b', 'a_b', long]))
  })

  it('are not written through links', async () => {
    const root = await temporaryFolder({ 'elsewhere/file': 'mine' })
    symlinkSync(path.join(root, 'elsewhere'), path.join(root, 'r1'))
    await expect(writeTrajectories(root, ended())).rejects.toMatchObject({
      code: 'storage_error',
      message: expect.stringContaining('r1 is a link instead of a folder'),
    })
    mkdirSync(path.join(root, 'r2'))
    symlinkSync(path.join(root, 'elsewhere/file'), path.join(root, 'r2/trajectory.json'))
    await writeTrajectories(root, ended({ rolloutId: 'r2' }))
    expect(readFileSync(path.join(root, 'elsewhere/file'), 'utf8')).toBe('mine')
    expect(read(root, 'r2/trajectory.json').session_id).toBe('r2')
  })

  it('include diagnostics when something went wrong', async () => {
    const root = await temporaryFolder()
    const failure = { phase: 'workflow', category: 'agent_error', message: 'boom' } as const
    await writeTrajectories(root, ended({ failures: [failure], warnings: ['odd'] }))
    expect(JSON.parse(readFileSync(path.join(root, 'r1/diagnostics.json'), 'utf8'))).toEqual({
      failed_calls: [],
      failures: [failure],
      rollout_id: 'r1',
      warnings: ['odd'],
    })
    expect(read(root).extra?.['osmosis']).toMatchObject({ failures: [failure] })
  })

  it('are all tried when one cannot be written, and then the error is thrown', async () => {
    const root = await temporaryFolder()
    mkdirSync(path.join(root, 'r1/trajectory-a.json'), { recursive: true })
    const two = ['a', 'b'].map((id) => toRolloutSample({ id, messages: [] }))
    await expect(writeTrajectories(root, ended({ samples: samples(...two) }))).rejects.toThrow(
      /trajectory-a\.json/,
    )
    expect(readdirSync(path.join(root, 'r1')).toSorted()).toEqual([
      'trajectory-a.json',
      'trajectory-b.json',
    ])
  })
})

describe('the text of a document', () => {
  it('is indented, with lists of numbers on one line', async () => {
    const root = await temporaryFolder()
    const sample = {
      ...sampleOf(user('q')),
      metrics: { ids: [1, 2.5, -3], empty: [], pairs: [[1]] },
    }
    await writeTrajectories(root, ended({ samples: samples(sample) }))
    const text = readFileSync(path.join(root, 'r1/trajectory.json'), 'utf8')
    expect(text).toContain('{\n  "schema_version": "ATIF-v1.7",\n')
    expect(text).toContain('"ids": [1, 2.5, -3]')
    expect(text.endsWith('}')).toBe(true)
    expect(read(root).extra?.['osmosis']).toMatchObject({ sample_metrics: sample.metrics })
  })

  it.each([
    ['a text of 3 MB', () => [user('x'.repeat(3_000_000)), user('the end')]],
    [
      '20 000 messages',
      () =>
        Array.from({ length: 20_000 }, (_, n) => user(n === 19_999 ? 'the end' : `message ${n}`)),
    ],
    [
      '5000 tool calls in a message',
      () => {
        const calls = Array.from({ length: 5000 }, (_, n) => ({
          id: `c${n}`,
          function: { name: 'f', arguments: `{"x":"${'y'.repeat(200)}"}` },
        }))
        const results = calls.map(({ id }) => ({
          role: 'tool',
          tool_call_id: id,
          content: id.repeat(50),
        }))
        return [{ role: 'assistant', tool_calls: calls }, ...results, user('the end')]
      },
    ],
  ])('is truncated, and says what it omits: %s', async (_, messages) => {
    const root = await temporaryFolder()
    const sample = { ...sampleOf(...messages()), extraFields: { big: 'x'.repeat(500_000) } }
    const rollout = ended({ samples: samples(sample), extraFields: { row_index: 1 } })
    await writeTrajectories(root, rollout, { maxBytes: 200_000 })
    expect(statSync(path.join(root, 'r1/trajectory.json')).size).toBeLessThanOrEqual(200_000)
    const document = read(root)
    expect(document.notes).toMatch(/^Left out, to stay below 200000 bytes: token ids of prompts; /)
    expect(document.steps.at(-1)?.message).toBe('the end')
    expect(document.extra?.['osmosis']).toMatchObject({
      rollout_id: 'r1',
      request_extra_fields: { row_index: 1 },
    })
  })

  it.each(['', '.'])('is cut between characters only: %j', async (first) => {
    const root = await temporaryFolder()
    const sample = sampleOf(user(first + '😀'.repeat(100_000)), user('the end'))
    await writeTrajectories(root, ended({ samples: samples(sample) }), { maxBytes: 200_000 })
    const { message } = read(root).steps[0] ?? {}
    expect(message).toContain('characters left out')
    expect((message as string).isWellFormed()).toBe(true)
  })

  it('is valid for any messages and fields', async () => {
    const root = await temporaryFolder()
    const content = fc.oneof(fc.string(), fc.anything())
    const toolCall = fc.record(
      {
        id: fc.oneof(fc.constantFrom('c1', 'c2', ''), fc.anything()),
        function: fc.oneof(fc.record({ name: content, arguments: content }), fc.anything()),
      },
      { requiredKeys: [] },
    )
    const message = fc.record(
      {
        role: fc.oneof(
          fc.constantFrom('system', 'user', 'assistant', 'tool', 'function'),
          fc.anything(),
        ),
        content,
        tool_calls: fc.oneof(fc.array(toolCall, { maxLength: 3 }), fc.anything()),
        tool_call_id: fc.oneof(fc.constantFrom('c1', 'c2'), fc.anything()),
        reasoning_content: content,
        name: content,
      },
      { requiredKeys: ['role'] },
    )
    const messages = fc.array(
      fc.oneof({ weight: 9, arbitrary: message }, { weight: 1, arbitrary: fc.anything() }),
    )
    await fc.assert(
      fc.asyncProperty(
        messages,
        fc.dictionary(fc.string(), fc.anything()),
        async (said, fields) => {
          const sample = toRolloutSample({ id: 'main', messages: said, metrics: fields })
          await writeTrajectories(root, ended({ samples: samples(sample), extraFields: fields }))
          expect(read(root).session_id).toBe('r1')
        },
      ),
      { numRuns: runs(60) },
    )
  })
})
