import { render } from 'preact'

import { App } from './app.tsx'
import { liveSource } from './source/live-source.ts'
import { reportSource } from './source/report-source.ts'
import type { Source } from './source/source.ts'

const root = document.querySelector('#app')
if (root !== null) render(<App source={openSource()} />, root)

/** The report in this page, or else the server of this page. */
function openSource(): Source {
  const embedded = document.querySelector('#embedded')?.textContent
  return embedded ? reportSource(embedded) : liveSource()
}
