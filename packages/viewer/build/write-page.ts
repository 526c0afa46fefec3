// Writes the built page: node build/write-page.ts dist/page.html
import { writeFile } from 'node:fs/promises'

import { buildPage } from './build-page.ts'

await writeFile(process.argv[2] ?? 'dist/page.html', await buildPage())
