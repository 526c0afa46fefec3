import { render } from 'preact'

import { App } from './app.tsx'
import { openSource } from './source/open-source.ts'

const root = document.querySelector('#app')
if (root !== null) render(<App source={openSource()} />, root)
