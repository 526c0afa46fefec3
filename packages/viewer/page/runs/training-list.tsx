import { formatCount } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'

import type { TrainingListing, TrainingSummary } from '../../src/wire.ts'
import { AlarmLine } from '../parts/alarm-line.tsx'
import { Trend } from '../parts/trend.tsx'
import { hrefOf } from '../route.ts'
import type { Source } from '../source/source.ts'

/** Interval of reading the list again. Milliseconds. */
const refreshMs = 3000

/** All trainings, the newest first; nothing when there are none. */
export function TrainingList({ source }: { source: Source }): JSX.Element | null {
  const trainings = useTrainings(source)
  if (trainings.length === 0) return null
  return (
    <section aria-label="Trainings">
      <h1>Trainings</h1>
      <div class="sheet">
        <table class="grid">
          <thead>
            <tr>
              <th>Training</th>
              <th class="wide">Model</th>
              <th class="wide">Dataset</th>
              <th class="wide">Reward over the steps</th>
              <th class="end">Last reward</th>
              <th class="end">Steps</th>
            </tr>
          </thead>
          <tbody>
            {trainings.map((training) =>
              'problem' in training ? (
                <tr key={training.name}>
                  <td class="name">{training.name}</td>
                  <td colSpan={5} class="dim">
                    {training.problem}
                  </td>
                </tr>
              ) : (
                <TrainingLine key={training.name} training={training} />
              ),
            )}
          </tbody>
        </table>
      </div>
    </section>
  )
}

function TrainingLine({ training }: { training: TrainingSummary }): JSX.Element {
  const { name, state, model, dataset, steps, planned, rewards, alarms } = training
  const ended =
    planned === null ? formatCount(steps) : `${formatCount(steps)} of ${formatCount(planned)}`
  const last = rewards.at(-1)
  return (
    <>
      <tr class={alarms.length > 0 ? 'alarmed' : ''}>
        <td class="name">
          <a href={hrefOf({ page: 'training', training: name })}>{name}</a>
        </td>
        <td class="wide mono">{model}</td>
        <td class="wide" title={dataset ?? ''}>
          {dataset?.split('/').at(-1)}
        </td>
        <td class="wide">
          <Trend values={rewards} text={(value) => value.toFixed(3)} />
        </td>
        <td class="end">{last?.toFixed(3) ?? '–'}</td>
        <td class="end">
          {state === 'finished' ? (
            ended
          ) : (
            <span class={`state ${state === 'running' ? 'running' : 'incomplete'}`}>{ended}</span>
          )}
        </td>
      </tr>
      <AlarmLine alarms={alarms} columns={6} />
    </>
  )
}

function useTrainings(source: Source): readonly TrainingListing[] {
  const [trainings, setTrainings] = useState<readonly TrainingListing[]>([])
  useEffect(() => {
    let isCancelled = false
    let timer: ReturnType<typeof setTimeout> | undefined
    const read = async (): Promise<void> => {
      try {
        const listed = await source.trainings?.()
        if (!isCancelled && listed !== undefined) setTrainings(listed)
      } catch {
        // The list of runs beside it says what is wrong.
      }
      if (!isCancelled && source.trainings !== undefined) {
        timer = setTimeout(() => void read(), refreshMs)
      }
    }
    void read()
    return () => {
      isCancelled = true
      clearTimeout(timer)
    }
  }, [source])
  return trainings
}
