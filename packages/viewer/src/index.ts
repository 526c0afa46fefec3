export { exportReport, type ReportOptions, type WrittenReport } from './report/export-report.ts'
export { type RunPlaces } from './runs/run-catalog.ts'
export { startViewer, type Viewer, type ViewerOptions } from './start-viewer.ts'
export { type TrainingPlaces } from './trainings/training-catalog.ts'
