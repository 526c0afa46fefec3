import { appendFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import type { ItemEvent, RowHistory, TrainingRecord } from '@osmosis/eval/analysis'
import { startViewer } from '@osmosis/viewer'
import { expect, it, onTestFinished } from 'vitest'

import { journalEvents, journalLine, temporaryFolder } from '../../../test/kit/index.ts'
import { writeTraining } from './synthetic/training.ts'
import { ViewerClient } from './viewer-client.ts'

it('rows of a training are read again when more rollouts of a recorded step ended', async () => {
  const root = await temporaryFolder()
  const made = { name: 'airline', steps: 2, rows: 4, rowsPerStep: 4, attempts: 3 }
  const folder = await writeTraining(root, made)
  const journal = path.join(folder, 'training.jsonl')
  const step = readFileSync(journal, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as TrainingRecord)
    .findLast((record) => record.kind === 'step')
  const file = path.join(folder, 'runs/step-0002/events.jsonl')
  const events = journalEvents<ItemEvent>(file)
  const viewer = await startViewer({ trainingRoot: root })
  onTestFinished(() => viewer.close())
  const client = new ViewerClient(viewer.url)
  const endedAtLast = async (): Promise<(number | undefined)[]> => {
    const rows = await client.json<RowHistory[]>('/api/trainings/airline/rows')
    return rows.map(({ steps }) => steps.at(-1)?.ended)
  }
  writeFileSync(file, events.slice(0, 8).map(journalLine).join(''))
  const before = await endedAtLast()
  expect(before).not.toEqual([3, 3, 3, 3])
  writeFileSync(file, events.map(journalLine).join(''))
  const later = { ...step, endedAt: '2026-11-20T10:00:00.000Z' }
  appendFileSync(journal, `${JSON.stringify(later)}\n`)
  expect(await endedAtLast()).toEqual([3, 3, 3, 3])
})

it('rows of a training are shown without the steps whose runs cannot be read', async () => {
  const root = await temporaryFolder()
  const made = { name: 'airline', steps: 3, rows: 4, rowsPerStep: 4, attempts: 3 }
  const folder = await writeTraining(root, made)
  rmSync(path.join(folder, 'runs/step-0001'), { recursive: true })
  writeFileSync(path.join(folder, 'runs/step-0002/events.jsonl'), 'damaged\n')
  const viewer = await startViewer({ trainingRoot: root })
  onTestFinished(() => viewer.close())
  const rows = await new ViewerClient(viewer.url).json<RowHistory[]>('/api/trainings/airline/rows')
  expect(rows.map(({ steps }) => steps.map(({ step }) => step))).toEqual([[3], [3], [3], [3]])
})
