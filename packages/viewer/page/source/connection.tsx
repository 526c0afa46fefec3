import { createContext, type JSX } from 'preact'
import { useContext, useEffect, useState } from 'preact/hooks'

import { CopyButton } from '../text/block.tsx'
import type { Connection, Source } from './source.ts'

/** Whether what is shown still follows the files. A report does not change, so it is never out of date. */
const Live = createContext(true)

export const LiveProvider = Live.Provider

export function useIsLive(): boolean {
  return useContext(Live)
}

export function useConnection(source: Source): Connection {
  const [connection, setConnection] = useState<Connection>('live')
  useEffect(() => source.watch?.(setConnection), [source])
  return connection
}

const command = 'npx osmosis eval view'

const texts: Record<Exclude<Connection, 'live'>, readonly [title: string, detail: string]> = {
  unreachable: ['The server of this page does not answer.', 'Start it again and open its link:'],
  refused: [
    'Another server answers at this address.',
    'Open the link that it printed, here or in another tab:',
  ],
}

/** Says that the page is out of date, and what to do; nothing while the server answers. */
export function ConnectionNotice({ connection }: { connection: Connection }): JSX.Element | null {
  if (connection === 'live') return null
  const [title, detail] = texts[connection]
  return (
    <div class="notice" role="alert">
      <span>
        <b>{title}</b> What you see is no longer updated. {detail} <code>{command}</code>
      </span>
      <CopyButton text={command} />
    </div>
  )
}
